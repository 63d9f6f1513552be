#!/usr/bin/env bash
# Checks every model, and that each of its mutations is found. A mutation is a name that a model
# lists under "Mutations:"; the model is compiled with -DNAME. Usage: scripts/model.sh [MODEL…]
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check MODEL [MUTATION] prints what Spin found: the number of errors and of states.
check() {
  local model; model=$(realpath "$1")
  (
    cd "$work"
    spin -a ${2:+-D"$2"} "$model" > spin.log || { cat spin.log >&2; exit 1; }
    gcc -O2 -w -DSAFETY -o pan pan.c
    ./pan -E -m1000000 > pan.log
    if grep -q "search depth too small" pan.log; then
      echo "$1 ${2:-}: the search was cut off" >&2
      exit 1
    fi
    sed -n -e 's/.*errors: \([0-9]*\).*/\1/p' pan.log
    sed -n -e 's/ *\([0-9]*\) states, stored.*/\1/p' pan.log
  )
}

failed=0
report() { printf '%-28s %-14s %10s states  %s\n' "$@"; }
for model in "${@:-model/*.pml}"; do
  for file in $model; do
    name=$(basename "$file" .pml)
    { read -r errors; read -r states; } < <(check "$file")
    if [[ $errors == 0 ]]; then report "$name" - "$states" holds; else report "$name" - "$states" VIOLATED; failed=1; fi
    for mutation in $(sed -n '/Mutations:/,/\*\//s/^ \*   \([A-Z_]*\) .*/\1/p' "$file"); do
      { read -r errors; read -r states; } < <(check "$file" "$mutation")
      if [[ $errors != 0 ]]; then report "$name" "$mutation" "$states" found; else report "$name" "$mutation" "$states" MISSED; failed=1; fi
    done
  done
done
exit $failed
