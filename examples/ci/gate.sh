#!/usr/bin/env bash
# Audits one claim and decides whether a job passes. Environment: MODEL or TARGET, EPSILON, and optionally DELTA, UNIT, DATA,
# ARGUMENTS, BASELINE (folder of an earlier run), WEAK (pass or fail). Exit codes: 0 passes, 1 refuted or worse, 2 wrong use,
# 3 unfinished, untested, inconclusive, too weak (with WEAK=fail), or a claim of the baseline vanished.
set -uo pipefail
if [ -z "${MODEL:-}${TARGET:-}" ]; then
  echo "::error::Give MODEL or TARGET: which of your models is audited?"
  exit 2
fi
if [ -z "${EPSILON:-}" ]; then
  echo "::error::Give EPSILON: the claim that is audited."
  exit 2
fi
if [[ ! "${WEAK:-pass}" =~ ^(pass|fail)$ ]]; then
  echo "::error::WEAK=$WEAK: must be pass or fail."
  exit 2
fi
if [ -n "${BASELINE:-}" ] && [ ! -d "$BASELINE" ]; then
  echo "::error::BASELINE=$BASELINE is no folder. Give the folder of an earlier run, or leave it out."
  exit 2
fi
folder=${FOLDER:-runs/ci}
output=${GITHUB_OUTPUT:-/dev/null}
words=(run --preset ci --out "$folder" --fresh --epsilon "$EPSILON")
[ -z "${MODEL:-}" ] || words+=(--model "$MODEL")
[ -z "${TARGET:-}" ] || words+=(--target "$TARGET")
[ -z "${DELTA:-}" ] || words+=(--delta "$DELTA")
[ -z "${UNIT:-}" ] || words+=(--unit "$UNIT")
[ -z "${DATA:-}" ] || words+=(--data "$DATA")
read -r -a more <<< "${ARGUMENTS:-}"
rm -f "$folder/junit.xml" "$folder/card.md"  # of an earlier run: a run that breaks off must not leave a report that passes
log=$(mktemp)  # what `audit` prints on stderr: its last line says what was wrong
{ audit "${words[@]}" ${more[@]+"${more[@]}"} 2>&1 >&3 | tee "$log" >&2; code=${PIPESTATUS[0]}; } 3>&1
said=$(grep '^audit: ' "$log" | tail -n 1)
said=${said//%/%25}  # as GitHub asks of a message
rm -f "$log"
echo "exit-code=$code" >> "$output"
if [ ! -f "$folder/junit.xml" ]; then
  echo "::error::The audit did not finish (exit code $code). ${said:-Its log says why.}"
  exit "$((code == 0 ? 3 : code))"
fi
echo "folder=$folder" >> "$output"
cat "$folder/card.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
claims=$(grep -m1 '^[^#]' "$folder/card.md")  # the line that names the claims
claims=${claims//%/%25}
if [ "$code" -eq 1 ]; then
  file=${MODEL:-} card=$(< "$folder/card.md")
  file=${file%:*}
  after=${card#*"${file##*/}, line "}
  at=""  # the line of the model's file that the verdict names
  [ -z "$file" ] || [ "$after" = "$card" ] || at=" file=${file#./},line=${after%%[!0-9]*}"
  case "$file" in */*) beside=${file%/*}/ ;; *) beside="" ;; esac
  [ -z "$file" ] || while IFS= read -r place; do  # else of a file beside it, which it imports
    path=$beside${place%%, line *}
    [ -n "$at" ] || [ ! -f "$path" ] || at=" file=${path#./},line=${place##*, line }"
  done < <(grep -oE '[A-Za-z0-9_.-]+[.]py, line [0-9]+' <<< "$card")
  echo "::error$at::$claims The report says by what."
  exit 1
fi
if [ "$claims" = "This run tested no claim." ]; then
  echo "::error::$claims Give a finite EPSILON."
  exit 3
fi
if ! grep -q 'errors="0"' "$folder/junit.xml"; then
  echo "::error::A claim was tested by no audit, or its result is inconclusive for another reason than a weak audit. $claims junit.xml says why."
  exit 3
fi
if [ "$code" -eq 3 ]; then
  if [ "${WEAK:-pass}" != pass ]; then
    echo "::error::The audit was too weak to notice a violation. $claims"
    exit 3
  fi
  echo "::warning::The audit was too weak to notice a violation. $claims"
elif [ "$code" -ne 0 ]; then
  exit "$code"
fi
if [ -n "${BASELINE:-}" ]; then
  said=$(audit compare "$BASELINE" "$folder")
  worse=$?
  printf '%s\n' "$said"
  named=$(grep -E '^(Worse|Vanished): ' <<< "$said" | tr '\n' ' ')  # the lines that name the claims
  named=${named//%/%25}
  case "$worse" in
    0) ;;
    1) echo "::error::Compared with $BASELINE, a verdict is worse. $named" ;;
    3) echo "::error::Compared with $BASELINE, a claim vanished, or the runs have no claim in common. $named" ;;
    *) echo "::error::The comparison with $BASELINE failed (exit code $worse). Its log says why." ;;
  esac
  exit "$worse"
fi
