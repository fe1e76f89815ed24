# Completion of berth(1) for bash: commands, options, and the names of images, containers and settings that are there.

_berth_commands="run exec ssh-config ps save rm plan pull mirror import images inspect rmi gc verify sign publish \
profile login logout environment config devices doctor setup migrate stats report version"

# The first column of a listing, without its head; - stands for no name.
_berth_names() {
  berth "$@" 2> /dev/null | awk 'NR > 1 && $1 != "-" { print $1 }'
}

# The jobs of the caller that run.
_berth_jobs() {
  squeue --me --noheader --states=RUNNING --format=%i 2> /dev/null
}

# The options of the command $1, one a line, as the program knows them: --json, --job= with a value, --policy=newer
# missing with one of these words, --name=CONTAINERS with one of these. Only commands for people are asked.
_berth_list() {
  [[ " $_berth_commands " != *" $1 "* ]] || berth "$1" --list-options 2> /dev/null | grep '^-'
}

_berth_options() {
  _berth_list "$1" | sed 's/=.*//'
}

# What may follow the option $1 of the command $2: prints words, or FILES, and fails when $1 takes no value.
_berth_value() {
  local line
  while read -r line; do
    [[ $line == "$1="* ]] || continue
    case ${line#*=} in
      CONTAINERS) _berth_names ps ;;
      ENVIRONMENTS) _berth_names environment list ;;
      JOBS) _berth_jobs ;;
      VARIABLES) compgen -v ;;
      *) echo "${line#*=}" ;;
    esac
    return
  done < <(_berth_list "$2")
  return 1
}

# The words that an argument of the command $1 may be.
_berth_arguments() {
  case $1 in
    run | plan | pull | import | inspect | rmi | sign | publish | profile) _berth_names images ;;
    exec | save | rm) _berth_names ps ;;
    ssh-config) _berth_jobs ;;
    environment)
      echo 'list show'
      _berth_names environment list
      ;;
    config) echo 'show check' ;;
    setup) echo plugstack ;;
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
    values=$(_berth_value "$before" "$command") || values=$(_berth_arguments "$command")
    if [[ $values == FILES ]]; then COMPREPLY=(); else _berth_reply "$values" "$word"; fi
  fi
}

complete -o default -F _berth berth
