#!/bin/sh
# Makes an image in which systemd can be booted, for the tests of deploy::systemd, unless there is
# one of this very script, and prints its name. Needs root, debootstrap and a Debian mirror; takes
# about a minute. With --find it only says whether there is one.
set -eu

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
tag=testbed-systemd:$(sha256sum "$0" | cut -c1-12)
if docker image inspect "$tag" >/dev/null 2>&1; then
    echo "$tag"
    exit 0
fi
if [ "${1:-}" = --find ]; then
    exit 1
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
# Nothing but the manager itself and what the units need: no kernel, no udev, no getty.
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates \
    stable "$directory/tree" "$mirror" >&2
tar -C "$directory/tree" --exclude=./var/cache/apt --exclude=./var/lib/apt/lists -c . | docker import --change 'CMD ["/lib/systemd/systemd"]' - "$tag" >&2
echo "$tag"
