#!/bin/sh
# Installs what the lock file names, hashes checked, and the project itself into the folder TARGET: what the image runs. Nobody
# can add to an image without a shell, so the login of AWS is in it. EXTRA is msk, or pipeline for the Spark jobs.
# Run from the root of the checkout; needs Python and uv. The tests run the same script in a clean folder.
set -eu
target=${1:?usage: deploy/image/install.sh TARGET [EXTRA]}
extra=${2:-msk}
# Wheels only. Spark is published as an archive alone, and nothing in it is compiled.
case $extra in pipeline) built="--no-binary pyspark" ;; *) built="" ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv export --quiet --frozen --no-dev --extra "$extra" --no-emit-project --output-file "$work/requirements.txt"
# shellcheck disable=SC2086 # no option or two words
uv pip install --quiet --require-hashes --only-binary :all: $built --target "$target" --requirements "$work/requirements.txt"
uv build --quiet --wheel --out-dir "$work/wheel" .
uv pip install --quiet --no-deps --target "$target" "$work"/wheel/*.whl
python -m compileall -q "$target"
