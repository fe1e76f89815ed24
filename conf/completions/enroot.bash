# Completion of enroot(1) for bash: commands, options, names of containers, files.

_berth_enroot_commands="import create load start exec list export remove batch digest info version help"

_berth_enroot() {
  local line=${COMP_LINE:0:COMP_POINT} words word command answers=''
  read -ra words <<< "$line"
  [[ $line != *' ' ]] || words+=('')
  word=${words[-1]} command=${words[1]:-}
  if (( ${#words[@]} <= 2 )); then
    answers=$_berth_enroot_commands
  elif [[ $word == -* && " $_berth_enroot_commands " == *" $command "* ]]; then
    answers="$(enroot "$command" --list-options 2> /dev/null | sed -n 's/^\(-[^=]*\).*/\1/p') --help"
  elif [[ $command == @(start|export|remove) ]]; then
    answers=$(enroot list 2> /dev/null)
  fi
  mapfile -t COMPREPLY < <(compgen -W "$answers" -- "$word")
}

complete -o default -F _berth_enroot enroot
