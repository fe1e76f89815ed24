# Completion of berth-mig(8) for bash: commands and options.

_berth_mig() {
  local line=${COMP_LINE:0:COMP_POINT} words word command answers=''
  read -ra words <<< "$line"
  [[ $line != *' ' ]] || words+=('')
  word=${words[-1]} command=${words[1]:-}
  if (( ${#words[@]} <= 2 )); then
    answers="apply restore plan --help --version"
  elif [[ $word == -* && $command == @(apply|restore|plan) ]]; then
    answers=$(berth-mig "$command" --help 2> /dev/null | sed -nE 's/^  (-h,)?(--[a-z-]+).*/\2/p')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$answers" -- "$word")
}

complete -o default -F _berth_mig berth-mig
