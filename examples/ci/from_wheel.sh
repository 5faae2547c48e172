#!/usr/bin/env bash
# What a CI engineer does, from nothing to a gate: builds a wheel, installs it into an environment that has nothing else, and lets
# the gate decide on an honest model, on one with half of the noise, and on one whose claim vanished.
#   bash examples/ci/from_wheel.sh [FOLDER]      FOLDER: where all of it is made; by default a new temporary one
# LIBRARIES=DIR takes the dependencies from this site-packages folder instead of downloading them. Exit code 0: the gate decided
# as it should three times. 1: it did not.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
room=${1:-$(mktemp -d)}
mkdir -p "$room/source"
cd "$here" && git ls-files -z | xargs -0 cp --parents -t "$room/source"  # a wheel is never built inside a checkout that is in use
cd "$room"
python3 -m pip wheel -q --disable-pip-version-check --no-deps -w wheels ./source
python3 -m venv clean
if [ -n "${LIBRARIES:-}" ]; then
  clean/bin/pip install -q --disable-pip-version-check --no-deps wheels/gnnaudit-*.whl
  echo "$LIBRARIES" > "$(echo clean/lib/python3*/site-packages)/libraries.pth"
else
  clean/bin/pip install -q --disable-pip-version-check -c source/requirements.lock wheels/gnnaudit-*.whl
fi
export PATH="$room/clean/bin:$PATH"
unset PYTHONPATH
cp source/examples/own_model.py votes.py
sed 's/std = worlds.graph, 2\*\*0.5 \* self.sigma/std = worlds.graph, 0.5 * 2**0.5 * self.sigma/' votes.py > leak.py
sed 's/name = "votes"/name = "ballots"/' votes.py > renamed.py
! cmp -s votes.py leak.py && ! cmp -s votes.py renamed.py

# gate MODEL FOLDER [BASELINE]: prints what the gate says, and returns its exit code.
gate() {
  MODEL=$1 FOLDER=$2 BASELINE=${3:-} EPSILON=1 DATA=campus:n=300 \
    ARGUMENTS="--quiet --attacks none --repeats 1 --audits residual,game,differential" bash source/examples/ci/gate.sh
}

# expect CODE WORDS MODEL FOLDER [BASELINE]: the gate must return this code and print these words.
expect() {
  local said code=0
  said=$(gate "${@:3}" 2>&1) || code=$?
  printf '%s\n%s: exit code %s, expected %s\n' "$said" "$3" "$code" "$1"
  if [ "$code" -ne "$1" ] || ! grep -q "$2" <<< "$said"; then
    echo "from_wheel: the gate must return $1 and say '$2'." >&2
    exit 1
  fi
}
expect 0 "" votes.py:Votes accepted
expect 1 "The claim is refuted: votes (own) at ε = 1" leak.py:Votes leaking accepted
expect 3 "Vanished: votes (own), ε = 1" renamed.py:Votes renamed accepted
echo "The gate passed the honest model, stopped the leak and named the claim that vanished."
