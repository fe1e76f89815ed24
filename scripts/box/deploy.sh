#!/bin/bash
# Puts the installed tree ($state/install) into the box's private /usr and /etc; runs inside the box.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=scripts/box/common.sh
source "$here/common.sh"
# shellcheck source=scripts/box/config.sh
source "$here/config.sh"

# A file in use (a loaded plugin, a running berth) is replaced, not overwritten.
cp -a --remove-destination "$state/install/." /
# The site's part of an installation, by hand: a link would have tests write to what is installed. Releases that
# installed the line in this place have no other.
line=/usr/share/berth/plugstack.conf
[[ ! -e $state/install$line ]] || install -D -m 644 "$line" /etc/slurm/plugstack.conf.d/berth.conf
write_berth

if [[ -d $state/lib/other ]]; then
  mkdir -p "$release_folder"
  cp --remove-destination "$state/lib/own/"* "$release_folder/"
  for file in "${release_files[@]}"; do
    installed=$(file_of_release "$state/install" "$file")
    ln -sf "$release_folder/$file" "${installed#"$state/install"}"
  done
fi
