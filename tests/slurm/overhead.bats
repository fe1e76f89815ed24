#!/usr/bin/env bats
# bats file_tags=cgroup
# What a container costs a step: the difference to the same step without one, measured in one allocation.
load helper

# Prints the medians in milliseconds of a plain and a contained `srun true`, taken in turns.
measure() {
  cat <<'END'
once() {
  local start=${EPOCHREALTIME/./}
  srun "$@" true || exit 1
  echo $(( (${EPOCHREALTIME/./} - start) / 1000 ))
}
median() { sort -n | sed -n 8p; }
once --container-image="$1" > /dev/null
for i in $(seq 15); do
  once >> "$2/plain"
  once --container-image="$1" >> "$2/contained"
done
echo "$(median < "$2/plain") $(median < "$2/contained")"
END
}

@test "a container from the store costs a step at most 100 ms" {
  alice mkdir -p times
  alice rm -f times/plain times/contained
  run -0 --separate-stderr alice salloc -Q -w n1 bash -c "$(measure)" bash "$image" times
  read -r plain contained <<< "$output"
  echo "# srun true: $plain ms, in a container $contained ms, difference $((contained - plain)) ms (medians of 15)" >&3
  (( contained - plain <= 100 ))
}
