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

{{- /* The container, the same in both shapes. It listens on the pod's address only. */ -}}
{{- define "bellwether.container" -}}
name: bellwether
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: ["run", "--config", "/etc/bellwether/config/bellwether.toml"]
env:
  - name: POD_IP
    valueFrom: { fieldRef: { fieldPath: status.podIP } }
  - name: BELLWETHER_HTTP_ADDRESS
    value: "$(POD_IP):9790"
  - name: BELLWETHER_LOG_FORMAT
    value: json
ports:
  - { name: metrics, containerPort: 9790 }
{{- /* Alive is that the event loop turns: a leader that waits in JoinGroup is alive. Ready never restarts anything. */}}
livenessProbe:
  httpGet: { path: /livez, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 3
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
volumeMounts:
  - { name: bellwether-config, mountPath: /etc/bellwether/config, readOnly: true }
{{- if .Values.secretName }}
  - { name: bellwether-secrets, mountPath: /etc/bellwether/secrets, readOnly: true }
{{- end }}
{{- end -}}

{{- define "bellwether.volumes" -}}
- name: bellwether-config
  configMap: { name: {{ include "bellwether.name" . }} }
{{- if .Values.secretName }}
- name: bellwether-secrets
  secret: { secretName: {{ .Values.secretName }}, defaultMode: 0440 }
{{- end }}
{{- end -}}
