#!/usr/bin/env bash
# Checks the models exhaustively, and that each of their mutations is found.
#
#   scripts/model.sh                   all models
#   scripts/model.sh MODEL             one, such as admission
#   scripts/model.sh MODEL MUTATION    a short counterexample of a mutation, as a table
#   scripts/model.sh --table           the table of mutations in docs/proof.md
#
# The comment at the top of each model lists its worlds and its mutations: names of -D macros, joined by +. With
# each mutation comes the invariant that Spin has to find violated. Where one of the names is LIVE, Spin looks for an
# execution that is fair and in which the newer leader never gets in.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# listed SECTION MODEL prints the lines of a section of the comment: names, and what follows them.
listed() { sed -n "/^ \* $1:/,/^ \*\(\/\)\?$/s/^ \*   \([A-Z][A-Z_+]*\)  *\(.*\)/\1 \2/p" "model/$2.pml"; }

models() { for file in model/*.pml; do basename "$file" .pml; done; }

# compiled MODEL NAMES FLAG… leaves the verifier in the present directory, as pan.
compiled() {
  local source; source="$OLDPWD/model/$1.pml"
  local macros=(); [[ $2 == - ]] || read -ra macros <<<"-D${2//+/ -D}"
  timeout 60 spin -a "${macros[@]}" "$source" > spin.log || { cat spin.log >&2; return 1; }
  gcc -w -DVECTORSZ=2048 -DNFAIR=5 "${@:3}" -o pan pan.c
}

# check NUMBER MODEL NAMES EXPECTED writes a line about it to a file of this number. EXPECTED is - for a world.
check() {
  local folder="$work/$1.d" errors states found verdict; mkdir "$folder"; cd "$folder"
  local search=(-E -w22) flags=(-O0 -DSAFETY)
  [[ $4 != - ]] || { search=(-E -w23) flags=(-O2 -DSAFETY); }
  [[ +$3+ != *+LIVE+* ]] || { search=(-a -f -w22) flags=(-O0); }
  compiled "$2" "$3" "${flags[@]}"
  ./pan "${search[@]}" -m50000 > pan.log || true
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
  states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
  found=$(sed -n -e 's/.*assertion violated (*\([0-9]*\)&&.*/\1/p' -e 's/.*acceptance cycle .*/live/p' pan.log)
  case "$4 ${errors:-?} $found" in
    "- 0 ") verdict=holds ;;
    "- "*) verdict="VIOLATED ($found)" ;;
    "$4 1 $4") verdict="found ($4)" ;;
    *) verdict="MISSED (found: ${found:-nothing})" ;;
  esac
  if [[ $4 == - ]] && grep -q "search depth too small" pan.log; then verdict="CUT OFF"; fi
  printf '%-14s %-26s %10s states %6s s %5s MB   %s\n' "$2" "${3#-}" "$states" \
    "$(sed -n 's/.*elapsed time \([0-9.]*\) .*/\1/p' pan.log)" \
    "$(sed -n 's/ *\([0-9]*\)[.0-9]*.*total actual memory.*/\1/p' pan.log)" "$verdict" > "$work/$1"
  cd "$OLDPWD"; rm -r "$folder"
}

# counterexample MODEL NAMES prints the steps of a short counterexample.
counterexample() {
  local search=(-E -i -m3000) flags=(-DSAFETY -DREACH) # -i: shorter and shorter ones
  [[ +$2+ != *+LIVE+* ]] || { search=(-a -f) flags=(); }
  cd "$work"
  compiled "$1" "$2" -O2 "${flags[@]}"
  ./pan "${search[@]}" > pan.log || true
  [[ -f $1.pml.trail ]] || { echo "$1 with $2: nothing is violated" >&2; exit 1; }
  echo "| step | who | does |"
  echo "|---|---|---|"
  spin -T -k "$1.pml.trail" ${2:+-D${2//+/ -D}} "$OLDPWD/model/$1.pml" | awk -F': ' '
    /^ltl |^Never claim/ { next }
    /START OF CYCLE/ { print "| | | from here on again and again: |"; next }
    /assertion violated|trail ends/ { exit }
    NF >= 2 { n++; sub(/^ +/, "", $1); who = $1; sub(/^[^:]*: /, ""); printf "| %d | %s | %s |\n", n, who, $0 }'
  sed -n -e 's/.*assertion violated (*\([0-9]*\)&&.*/\nThis violates invariant \1./p' -e 's/.*acceptance cycle .*/\nThis goes on for ever./p' pan.log | tail -2
}

if [[ ${1:-} == --table ]]; then
  echo "| model | mutation | what it takes away | violates |"
  echo "|---|---|---|---|"
  for model in $(models); do
    listed Mutations "$model" | while read -r names expected text; do
      echo "| \`$model\` | \`$names\` | $text | ${expected/live/a leader never gets in} |"
    done
  done
  exit
fi
if [[ -n ${2:-} ]]; then
  counterexample "$1" "$2"
  exit
fi

export work; export -f check compiled
number=1000
for model in ${1:-$(models)}; do
  { echo "- -"; listed Worlds "$model" | while read -r names _; do echo "$names -"; done
    listed Mutations "$model" | while read -r names expected _; do echo "$names $expected"; done; } |
    while read -r names expected; do echo "$((number++)) $model $names $expected"; done
  number=$((number + 1000))
done | xargs -P "$(nproc)" -L 1 bash -euo pipefail -c 'check "$@"' check
cat "$work"/[0-9]*
hold=$(cat "$work"/[0-9]* | grep -c ' holds$')
found=$(cat "$work"/[0-9]* | grep -c ' found (') || true
of=$(cat "$work"/[0-9]* | grep -c -v ' holds$') || true
if grep -q -E 'VIOLATED|CUT OFF' "$work"/[0-9]*; then echo "a model does not hold"; exit 1; fi
echo "$(for m in ${1:-$(models)}; do echo "$m"; done | wc -l) models hold in $hold worlds, $found of $of mutations found"
[[ $found == "$of" ]]
