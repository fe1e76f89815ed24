# Completion of berth(1) for bash: commands, options, and the names of images, containers and settings that are there.

# The options of a command.
_berth_options() {
  local run='--mount -w --workdir -e --env --mount-home --no-mount-home --root --no-root --rw --ro --read-only
    --entrypoint --no-entrypoint --name --save --ipc --net --uts --pid --cgroup
    -i --interactive -t --tty -v --verbose -q --quiet'
  case $1 in
    run) echo "$run" ;;
    plan) echo "$run --json --cdi" ;;
    exec) echo '-w --workdir -e --env -i --interactive -t --tty --job' ;;
    ps) echo '--json -a --all' ;;
    save) echo '-o --output --force --plain --job' ;;
    rm) echo '-f --force --job' ;;
    pull) echo '--policy --json -q --quiet' ;;
    import) echo '--policy -o --output --force -q --quiet --plain' ;;
    images | inspect | doctor) echo '--json' ;;
    gc) echo '--size --age --dry-run' ;;
    verify) echo '--repair -q --quiet' ;;
    login) echo '-u --user --password-stdin' ;;
    config) echo '--json' ;;
    stats) echo '--json --prometheus' ;;
  esac
}

_berth_commands="run exec ps save rm plan pull import images inspect rmi gc verify login logout config doctor stats \
version"

# The first column of a listing, without its head; - stands for no name.
_berth_names() {
  berth "$1" 2> /dev/null | awk 'NR > 1 && $1 != "-" { print $1 }'
}

# What may follow the option $1 of the command $2, or nothing for files: prints words, and fails when $1 takes no value.
_berth_value() {
  case $1 in
    --policy) echo 'newer missing always never' ;;
    --name) _berth_names ps ;;
    -o | --output | --save | -w | --workdir | --mount) echo FILES ;;
    -e | --env) compgen -v ;;
    -u | --user | --size | --age | --job) ;;
    *) return 1 ;;
  esac
}

# The words that an argument of the command $1 may be.
_berth_arguments() {
  case $1 in
    run | plan | pull | import | inspect | rmi) _berth_names images ;;
    exec | save | rm) _berth_names ps ;;
    config) echo 'show check' ;;
  esac
}

# A colon parts words for the shell, so that what stands before the last one is left out of the answers.
_berth_reply() {
  local answer prefix=''
  [[ $2 != *:* || $COMP_WORDBREAKS != *:* ]] || prefix=${2%"${2##*:}"}
  COMPREPLY=()
  while read -r answer; do COMPREPLY+=("${answer#"$prefix"}"); done < <(compgen -W "$1" -- "$2")
}

_berth() {
  local word before command line=${COMP_LINE:0:COMP_POINT} words
  read -ra words <<< "$line"
  [[ $line != *' ' ]] || words+=('')
  word=${words[-1]} before=${words[-2]:-} command=${words[1]:-}
  if (( ${#words[@]} <= 2 )); then
    _berth_reply "$_berth_commands" "$word"
  elif [[ $word == -* ]]; then
    _berth_reply "$(_berth_options "$command") --help" "$word"
  else
    local values
    values=$(_berth_value "$before") || values=$(_berth_arguments "$command")
    if [[ $values == FILES ]]; then COMPREPLY=(); else _berth_reply "$values" "$word"; fi
  fi
}

complete -o default -F _berth berth
