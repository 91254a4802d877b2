#!/bin/sh
# Copies Python, its library and every shared library that they need into the folder OUT.
set -eu
out=${1:?usage: distroless.sh OUT}
mkdir -p "$out/usr/bin" "$out/usr/lib64" "$out/etc/ssl/certs" "$out/home/nonroot" "$out/tmp" "$out/proc" "$out/sys" "$out/dev"
for link in bin lib lib64; do ln -s "usr/$link" "$out/$link"; done
cp -a /usr/bin/python3 /usr/bin/python3.11 "$out/usr/bin/"
cp -a --parents /usr/lib/python3.11 "$out"
rm -rf "$out/usr/lib/python3.11/ensurepip" "$out/usr/lib/python3.11/test"
libraries=$(find /usr/lib/python3.11/lib-dynload /usr/bin/python3.11 -type f -exec ldd {} + | sed -n 's|.*=> \(/[^ ]*\).*|\1|p' | sort -u)
glibc=$(dpkg -L libc6 | grep '/lib/x86_64-linux-gnu/[^/]*\.so')
for library in $libraries $glibc /usr/lib/x86_64-linux-gnu/libstdc++.so.6 /usr/lib/x86_64-linux-gnu/libgcc_s.so.1 /lib64/ld-linux-x86-64.so.2; do
    real=$(readlink -f "$library")
    mkdir -p "$out$(dirname "$library")"
    cp "$real" "$out$library"
done
cp /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
cp /etc/nsswitch.conf "$out/etc/" 2>/dev/null || printf 'hosts: files dns\n' > "$out/etc/nsswitch.conf"
printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' > "$out/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' > "$out/etc/group"
chmod 1777 "$out/tmp"
chown 65532:65532 "$out/home/nonroot"
