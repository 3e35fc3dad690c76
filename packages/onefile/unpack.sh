#!/bin/sh
# kproxy @VERSION@ for Linux @MACHINE@ in one file. The first run unpacks it into a folder of its user, KPROXY_UNPACK or
# ~/.cache/kproxy; every run starts the program that is there. After the last line of this script comes a tar archive.
set -eu
digest=@DIGEST@
base=${KPROXY_UNPACK:-${XDG_CACHE_HOME:-${HOME:?is not set: name a folder in KPROXY_UNPACK}/.cache}/kproxy}
folder=$base/program-@VERSION@-$(printf %.16s "$digest")

fail() {
    echo "kproxy: $*" >&2
    exit 2
}

if [ ! -e "$folder" ]; then
    umask 077
    mkdir -p "$base" || fail "cannot unpack: name a folder in KPROXY_UNPACK"
    new=$(mktemp -d "$base/new.XXXXXX") || fail "cannot unpack: name a folder in KPROXY_UNPACK"
    trap 'rm -rf "$new"' EXIT
    trap 'exit 130' INT TERM HUP
    if command -v sha256sum >/dev/null; then
        found=$(tail -c +@SKIP@ "$0" | sha256sum)
        [ "${found%% *}" = "$digest" ] || fail "$0 is damaged: copy it again"
    fi
    tail -c +@SKIP@ "$0" | tar -xzf - -C "$new" || fail "cannot unpack into $base: name another folder in KPROXY_UNPACK"
    # Renaming is atomic; it fails if another run was faster, and then the folder is there.
    mv -T "$new" "$folder" 2>/dev/null || [ -e "$folder" ] || fail "cannot unpack into $base"
    rm -rf "$new"
    trap - EXIT INT TERM HUP
fi
# Another user's program must not run, as with a KPROXY_UNPACK in /tmp, or a HOME that sudo has kept.
[ -O "$folder" ] || fail "$folder belongs to another user: name another folder in KPROXY_UNPACK"
[ -x "$folder/kproxy" ] || fail "$folder is incomplete: delete it"
exec "$folder/kproxy" "$@"
