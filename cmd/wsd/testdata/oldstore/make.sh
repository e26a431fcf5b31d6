#!/bin/sh
# Makes made.tar.gz, what TestOldStores opens, with a wsd of before its stores referred to files (schema 6): make.sh WSD OUT
set -eu
B=$1 OUT=$2 D=$(mktemp -d)
cd "$D"; mkdir here there home run
export HOME="$D/home" XDG_STATE_HOME="$D/home" XDG_RUNTIME_DIR="$D/run"
"$B" serve --workspace there --store there.db --listen "unix://$D/s" >/dev/null 2>serve.log & S=$!
while ! [ -S s ]; do sleep 0.1; done
sync() { "$B" sync --state here.db "$@" here "unix://$D/s"; }
( cd here
mkdir -p d/sub empty gone
echo plain >plain; echo '#!/bin/sh' >d/tool; chmod 755 d/tool; echo secret >d/sub/private; chmod 600 d/sub/private
ln -s d/tool link; echo x >gone/x; : >nothing; echo "of here" >both
awk 'BEGIN { print "a beginning"; for (i = 0; i < 40000; i++) print "the same long line" }' >long
cp long d/copy; touch -d '2020-02-02 02:02:02.123456789' plain d/copy )
sync
echo "of there" >there/both; echo "of me" >here/both; sync --on-conflict both
rm -r here/gone; mv here/d/sub here/moved; echo two >>there/plain; sync
id=$("$B" exec --connect "unix://$D/s" --detach -- sh -c 'echo out; echo err >&2; exit 7')
while "$B" log --connect "unix://$D/s" "$id" >/dev/null 2>&1; [ $? -eq 75 ]; do sleep 0.1; done
"$B" log --connect "unix://$D/s" "$id" || true
kill $S; wait $S || true
# Not sent yet.
echo later >here/later; echo other >there/others
for f in here.db there.db; do sqlite3 $f 'PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA journal_mode'; done
echo "$id" >runid
rm -f *-wal *-shm *.lock *.reserve
tar --sort=name --owner=0 --group=0 --numeric-owner --format=posix -c here there here.db there.db runid | gzip -9n >"$OUT" 
cd /; rm -rf "$D"
