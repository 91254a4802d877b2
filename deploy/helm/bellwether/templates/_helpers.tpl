{{- define "bellwether.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "bellwether.selector" -}}
app.kubernetes.io/name: bellwether
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bellwether.labels" -}}
{{ include "bellwether.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* Empty where the pods take the namespace's default account. */ -}}
{{- define "bellwether.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{- .name | default (ternary (include "bellwether.name" $) "" .create) -}}
{{- end -}}
{{- end -}}

{{- /* A process leads alone unless it knows how to stand by; the groups of other modes are joined by nobody. A line is
  read up to its comment, by its texts in quotes, because mode may stand in an inline table. */ -}}
{{- define "bellwether.leadsAlone" -}}
{{- $lead := regexMatch `(?m)^(?:(?:[^#"'\n]|"[^"\n]*"|'[^'\n]*')*[\s{,])?["']?mode["']?\s*=\s*["']+lead["']` .Values.config -}}
{{- $standby := regexMatch `(?m)^\s*"?standby"?\s*=\s*true` .Values.config -}}
{{- if and $lead (not $standby) }}true{{ end -}}
{{- end -}}

{{- define "bellwether.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* The container, the same in both shapes. It listens on the pod's address only. */ -}}
{{- define "bellwether.container" -}}
name: bellwether
image: {{ include "bellwether.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: ["run", "--config", "/etc/bellwether/config/bellwether.toml"]
env:
  - name: POD_IP
    valueFrom: { fieldRef: { fieldPath: status.podIP } }
  - name: BELLWETHER_HTTP_ADDRESS
    value: "$(POD_IP):9790"
  - name: BELLWETHER_LOG_FORMAT
    value: json
  {{- with .Values.extraEnv }}{{- toYaml . | nindent 2 }}{{- end }}
ports:
  - { name: metrics, containerPort: 9790 }
{{- /* Alive is that the event loop turns: a leader that waits in JoinGroup is alive. */}}
livenessProbe:
  httpGet: { path: /livez, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 6
{{- /* A sidecar has none: the application is ready, and stays behind its own Service, whatever becomes of its helper. */}}
{{- if eq .Values.shape "deployment" }}
readinessProbe:
  httpGet: { path: /readyz, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 3
{{- end }}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - { name: bellwether-config, mountPath: /etc/bellwether/config, readOnly: true }
{{- if .Values.secretName }}
  - { name: bellwether-secrets, mountPath: /etc/bellwether/secrets, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}{{- toYaml . | nindent 2 }}{{- end }}
{{- end -}}

{{- define "bellwether.volumes" -}}
- name: bellwether-config
  configMap: { name: {{ include "bellwether.name" . }} }
{{- if .Values.secretName }}
- name: bellwether-secrets
  {{- /* Files of a Secret belong to root, and the container runs as another user. No other container mounts the volume; an fsGroup would be the whole pod's. */}}
  secret: { secretName: {{ .Values.secretName }}, defaultMode: 0444 }
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
