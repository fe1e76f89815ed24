#!/bin/bash
# MariaDB with a folder and a socket of the box's, and slurmdbd.
set -euo pipefail
here=$(dirname "$0")/../..
# shellcheck source=scripts/box/common.sh
source "$here/common.sh"
data=$state/mariadb
install -d -o mysql -g mysql -m 750 "$data"
install -d -o mysql -g mysql -m 755 /run/mysqld
mariadb-install-db --no-defaults --user=mysql --datadir="$data" --skip-test-db \
  --auth-root-authentication-method=socket > "$state/log/mariadb.log" 2>&1
setsid mariadbd --no-defaults --user=mysql --datadir="$data" --socket=/run/mysqld/mysqld.sock --skip-networking \
  --innodb-buffer-pool-size=64M < /dev/null >> "$state/log/mariadb.log" 2>&1 &
for _ in $(seq 600); do
  mariadb --no-defaults --socket=/run/mysqld/mysqld.sock -e 'select 1' > /dev/null 2>&1 && break
  sleep 0.1
done
mariadb --no-defaults --socket=/run/mysqld/mysqld.sock <<'END'
create database slurm;
create user slurm@localhost identified via unix_socket;
grant all on slurm.* to slurm@localhost;
END
cat > /etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$dbd_port
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm
LogFile=$state/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
END
chown slurm: /etc/slurm/slurmdbd.conf
chmod 600 /etc/slurm/slurmdbd.conf
install -o slurm -g slurm -m 644 /dev/null "$state/log/slurmdbd.log"
setpriv --reuid slurm --regid slurm --init-groups slurmdbd
for _ in $(seq 300); do
  sacctmgr --immediate --quiet add cluster box > /dev/null 2>&1 && break
  sleep 0.1
done
# Without an account a user may not see what is kept of the user's own jobs.
sacctmgr --immediate --quiet add account team
sacctmgr --immediate --quiet add user alice account=team
