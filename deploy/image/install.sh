#!/bin/sh
# Installs what the lock file names, hashes checked, and the project itself into the folder TARGET: what the image runs. Nobody
# can add to an image without a shell, so the login of AWS is in it.
# Run from the root of the checkout; needs Python and uv. The tests run the same script in a clean folder.
set -eu
target=${1:?usage: deploy/image/install.sh TARGET}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv export --quiet --frozen --no-dev --extra msk --no-emit-project --output-file "$work/requirements.txt"
uv pip install --quiet --require-hashes --only-binary :all: --target "$target" --requirements "$work/requirements.txt"
uv build --quiet --wheel --out-dir "$work/wheel" .
uv pip install --quiet --no-deps --target "$target" "$work"/wheel/*.whl
python -m compileall -q "$target"
