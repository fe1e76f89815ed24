#!/bin/bash
# Runs a command inside the box as a user who just logged in: enter.sh USER DIR CMD...
set -euo pipefail
# shellcheck source=scripts/box/common.sh
source "$(dirname "$0")/common.sh"
user=$1 dir=$2
shift 2

entry=$(getent passwd "$user") || die "there is no user '$user' in the box (alice, bob, root)"
IFS=: read -r name _ uid gid _ home shell <<< "$entry"
path=$login_path
(( uid )) || path=$root_path
[[ ! -e $state/own-cgroups ]] || enter_cgroups
umask 022
# Without enter_box, which stands for the command outside, there is nobody who could end it.
exec setpriv --reuid "$uid" --regid "$gid" --init-groups --pdeathsig KILL -- \
  env -i --chdir="${dir:-$home}" HOME="$home" USER="$name" LOGNAME="$name" PATH="$path" SHELL="$shell" \
    TERM="${TERM:-dumb}" LANG=C.UTF-8 "$@"
