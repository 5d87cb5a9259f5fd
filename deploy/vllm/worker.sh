#!/usr/bin/env bash
# One vLLM worker on the CPU, in the foreground: this process becomes vLLM (exec), so its PID is vLLM's.
#
#   deploy/vllm/worker.sh --port 18101 [--model smollm2|tiny|/a/folder] [option VALUE]... [-- VLLM ARGUMENT...]
#
#   --name NAME          the name in the API (that of the folder)
#   --dtype DTYPE        float32; see below
#   --threads N          OpenMP threads (1 for tiny, else the number of cores, at most 4)
#   --block-size N       tokens in a KV block (32; vLLM's own default on a CPU is 128)
#   --kv-memory SIZE     KV cache, e.g. 64M (64M for tiny, else 512M)
#   --max-len N          longest prompt and answer together (8192)
#   --max-seqs N         sequences that run at once (32)
#   --kv-events ENDPOINT publish KV events over ZeroMQ, e.g. ipc:///tmp/kv.sock (off). ipc:// and tcp://*:N
#                        bind; tcp://host:N *connects* to a subscriber that has bound there
#   --kv-replay ENDPOINT replay socket of the KV events; always binds (off)
#   --kv-topic TOPIC     topic of the KV events (kv@PORT@NAME)
#   --dev                /reset_prefix_cache, /sleep and vLLM's other development endpoints
#
# The worker and its engine are two processes. Start this script in a process group of its own, and signal
# the group: SIGTERM to the first process suffices, but SIGKILL to it alone would leave the engine running.
set -euo pipefail

home=${REJOINDER_VLLM_HOME:-$HOME/.cache/rejoinder/vllm}
model=smollm2 port='' name='' threads='' kv_memory='' kv_events='' kv_replay='' kv_topic='' dev=0
block_size=32 max_len=8192 max_seqs=32

# float32, though bfloat16 decodes a third faster and reads long prompts several times faster. In bfloat16 this
# small model's choices are near ties: it answers "What is the capital of France?" with the Marseillaise (float32:
# Paris), and one prompt may give two texts, one computed and one from the prefix cache. Who compares answers with
# and without Rejoinder must not see that difference and blame it on Rejoinder.
dtype=float32

die() {
  echo "worker: $1" >&2
  exit "${2:-1}"
}

while [ $# -gt 0 ]; do
  case $1 in
    --) shift && break ;;
    --dev) dev=1 && shift && continue ;;
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  esac
  [ $# -ge 2 ] || die "$1 needs a value (see --help)" 2
  case $1 in
    --port) port=$2 ;;
    --model) model=$2 ;;
    --name) name=$2 ;;
    --dtype) dtype=$2 ;;
    --threads) threads=$2 ;;
    --block-size) block_size=$2 ;;
    --kv-memory) kv_memory=$2 ;;
    --max-len) max_len=$2 ;;
    --max-seqs) max_seqs=$2 ;;
    --kv-events) kv_events=$2 ;;
    --kv-replay) kv_replay=$2 ;;
    --kv-topic) kv_topic=$2 ;;
    *) die "unknown option $1 (see --help; vLLM's own arguments come after --)" 2 ;;
  esac
  shift 2
done

[ -n "$port" ] || die "which port? e.g. --port 18101" 2
case $model in */*) folder=$model ;; *) folder=$home/models/$model ;; esac
[ -x "$home/venv/bin/vllm" ] || die "vLLM is not installed in $home/venv; run $(dirname "$0")/install.sh"
[ -f "$folder/config.json" ] || die "there is no model in $folder; $(dirname "$0")/models.sh builds smollm2 and tiny"
# vLLM opens its port with SO_REUSEPORT: a second worker on it would not fail but share the first one's requests.
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then die "port $port is in use" 98; fi

cores=$(nproc)
case $folder in
  */tiny) : "${threads:=1}" "${kv_memory:=64M}" ;;
  *) : "${threads:=$((cores < 4 ? cores : 4))}" "${kv_memory:=512M}" ;;
esac
: "${name:=$(basename "$folder")}"

# Left to itself, vLLM binds its threads to cores, and two workers would fight over the same one. Threads that
# wait must sleep, too: spinning, they cost several times the CPU as soon as workers share cores.
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=passive
# The model runs inside the engine's process: one process and 400 MB less per worker, and a quicker start.
export VLLM_ENABLE_V1_MULTIPROCESSING=0
export VLLM_HOST_IP=127.0.0.1 VLLM_SERVER_DEV_MODE=$dev
# Nothing is looked up on a hub or reported anywhere; the model lies on this disk.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
unset PYTHONPATH PYTHONHOME VLLM_CPU_KVCACHE_SPACE # the last, in whole GiB, would overrule --kv-memory

arguments=(
  "$folder" --served-model-name "$name" --host 127.0.0.1 --port "$port"
  --dtype "$dtype" --max-model-len "$max_len" --max-num-seqs "$max_seqs"
  --kv-cache-memory-bytes "$kv_memory" --block-size "$block_size"
  --enable-prefix-caching --prefix-caching-hash-algo sha256_cbor # hashes that others can compute, too
  --enable-prompt-tokens-details                                 # without it, no cached_tokens in the usage
  --enable-request-id-headers --enable-server-load-tracking
  --distributed-executor-backend uni
  --enforce-eager # compiling the model would take minutes at each start
  --disable-uvicorn-access-log
)
if [ -n "$kv_events" ]; then
  events='{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "%s", "topic": "%s"%s}'
  replay=${kv_replay:+", \"replay_endpoint\": \"$kv_replay\""}
  # shellcheck disable=SC2059 # the format is the line above
  arguments+=(--kv-events-config "$(printf "$events" "$kv_events" "${kv_topic:-kv@$port@$name}" "$replay")")
fi

exec "$home/venv/bin/vllm" serve "${arguments[@]}" "$@"
