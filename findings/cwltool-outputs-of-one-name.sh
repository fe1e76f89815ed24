#!/bin/bash
# cwltool 3.1.20230209161050 (Debian 12): two outputs of a workflow whose files have one name are written over each
# other in --outdir, though the second is said to be renamed. The answer names out.txt, with the digest of the first
# file, and out.txt_2, with that of the second; there is no out.txt_2, and out.txt has what the second step wrote. The
# exit code is 0. With --leave-outputs, which is to leave files where steps have written them, neither is where the
# answer says.
#
# Needs Debian 12 and its package sources. What cwltool imports is of whatever version they have.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download cwltool=3.1.20230209161050-1 python3-schema-salad=8.4.20230213094415-1 \
  python3-cwl-utils=0.22-1 python3-ruamel.yaml=0.17.21-1 python3-ruamel.yaml.clib python3-argcomplete \
  python3-cachecontrol python3-certifi python3-chardet python3-charset-normalizer python3-coloredlogs python3-dateutil \
  python3-distutils python3-filelock python3-humanfriendly python3-idna python3-isodate python3-lib2to3 python3-lxml \
  python3-mistune0 python3-msgpack python3-mypy-extensions python3-networkx python3-packaging python3-pkg-resources \
  python3-prov python3-psutil python3-pydot python3-pyparsing python3-rdflib python3-requests python3-shellescape \
  python3-six python3-typing-extensions python3-urllib3 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
packages=$work/root/usr/lib/python3/dist-packages

cat > write.cwl <<'END'
cwlVersion: v1.2
class: CommandLineTool
baseCommand: echo
stdout: out.txt
inputs: {text: {type: string, inputBinding: {}}}
outputs: {file: {type: stdout}}
END
cat > flow.cwl <<'END'
cwlVersion: v1.2
class: Workflow
inputs: {}
outputs:
  a: {type: File, outputSource: one/file}
  b: {type: File, outputSource: two/file}
steps:
  one: {run: write.cwl, in: {text: {default: first}}, out: [file]}
  two: {run: write.cwl, in: {text: {default: second}}, out: [file]}
END

cwltool() { env -i PATH=/usr/bin:/bin HOME="$work" PYTHONPATH="$packages" /usr/bin/python3 root/usr/bin/cwltool "$@"; }
cwltool --version
cwltool --quiet --outdir out flow.cwl > answer
python3 - "$packages" <<'END'
import json
import os

answer = json.load(open("answer"))
told = [os.path.basename(answer[name]["path"]) for name in "ab"]
there = {name: open("out/" + name).read() for name in os.listdir("out")}
print("told:", told, "sizes", [answer[name]["size"] for name in "ab"], "in the folder:", there)
assert told == ["out.txt", "out.txt_2"] and [answer[name]["size"] for name in "ab"] == [6, 7]
assert there == {"out.txt": "second\n"}
END
mkdir steps
cwltool --quiet --leave-outputs --tmp-outdir-prefix "$work/steps/" flow.cwl > answer
python3 -c 'import json, os
answer = json.load(open("answer"))
there = [os.path.exists(answer[name]["path"]) for name in "ab"]
print("with --leave-outputs, there:", there)
assert there == [False, False]'
echo "cwltool 3.1.20230209161050: as described"
