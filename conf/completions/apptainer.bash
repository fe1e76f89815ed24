# Completion of apptainer(1) and singularity for bash: commands, flags, files.

_berth_apptainer_commands="exec run shell test instance pull build push inspect verify sif key cache registry
  version help"

_berth_apptainer() {
  local line=${COMP_LINE:0:COMP_POINT} words word command answers=''
  read -ra words <<< "$line"
  [[ $line != *' ' ]] || words+=('')
  word=${words[-1]} command=${words[1]:-}
  if (( ${#words[@]} <= 2 )); then
    answers=$_berth_apptainer_commands
  elif [[ $command == @(cache|instance|key|registry|sif) && ${#words[@]} == 3 ]]; then
    case $command in
    cache) answers='list clean' ;;
    instance) answers='start run list stop stats' ;;
    key) answers='list import remove' ;;
    registry) answers='login logout' ;;
    sif) answers='list header info dump' ;;
    esac
  elif [[ $command == instance && ${words[2]} == @(stop|stats) && $word != -* ]]; then
    answers=$("${words[0]}" instance list 2> /dev/null | sed '1d; s/ .*//')
  elif [[ $word == -* && $command == instance ]]; then
    answers="$("${words[0]}" instance "${words[2]}" --list-options 2> /dev/null | sed -n 's/^\(-[^=]*\).*/\1/p') --help"
  elif [[ $word == -* && " ${_berth_apptainer_commands//[$'\n']/ } " == *" $command "* ]]; then
    answers="$("${words[0]}" "$command" --list-options 2> /dev/null | sed -n 's/^\(-[^=]*\).*/\1/p') --help"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$answers" -- "$word")
}

complete -o default -F _berth_apptainer apptainer singularity
