#!/usr/bin/env bash
# Build the demo's model folders (smollm2, tiny) in $REJOINDER_VLLM_HOME/models; what is there costs nothing.
#
#   deploy/vllm/models.sh [smollm2] [tiny]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${REJOINDER_VLLM_HOME:-$HOME/.cache/rejoinder/vllm}/venv/bin/python
if [ ! -x "$python" ]; then
  echo "models: $python is missing; run $here/install.sh first" >&2
  exit 1
fi
exec "$python" "$here/models.py" "$@"
