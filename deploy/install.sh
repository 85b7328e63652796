#!/bin/sh
# Installs the daemons, jobctl, the systemd units and the settings on this machine, or removes them.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/install.sh [OPTION]... [orchestrator] [compute-agent] [jobctl]

Installs the named programs, or all of them. compute-agent brings wasm-runner, which runs
WebAssembly programs for it. Installing again upgrades them and keeps existing settings files.
It starts nothing.

Options:
  --binaries DIR  directory of the programs (default: target/release of this checkout)
  --prefix DIR    install programs into DIR/bin (default: /usr/local)
  --no-services   install programs only: no units, no users, no settings
  --uninstall     remove programs and units; settings, data and users stay
  --help          print this

With DESTDIR=DIR in the environment it installs everything below DIR, as for a package, and runs
no system command.
TEXT
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
binaries=${CARGO_TARGET_DIR:-$root/target}/release
prefix=/usr/local
destdir=${DESTDIR:-}
services=yes
action=install
names=

while [ $# -gt 0 ]; do
    case $1 in
        --binaries) [ $# -gt 1 ] || fail "--binaries needs a directory"; binaries=$2; shift ;;
        --prefix) [ $# -gt 1 ] || fail "--prefix needs a directory"; prefix=$2; shift ;;
        --no-services) services=no ;;
        --uninstall) action=uninstall ;;
        --help) usage; exit 0 ;;
        orchestrator | compute-agent | jobctl) names="$names $1" ;;
        *) fail "unknown argument '$1'; try --help" ;;
    esac
    shift
done
names=${names:-orchestrator compute-agent jobctl}
case $prefix in /*) ;; *) fail "--prefix needs an absolute path, not '$prefix'" ;; esac

# The program that an agent starts for each wasm program goes where the agent goes.
programs=
for name in $names; do
    programs="$programs $name"
    [ "$name" != compute-agent ] || programs="$programs wasm-runner"
done

units=$destdir/etc/systemd/system
sysusers=$destdir/etc/sysusers.d
daemons=
for name in $names; do
    [ "$name" = jobctl ] || daemons="$daemons $name"
done
# Call systemd only if it runs, and not while building a package.
systemd=no
if [ -z "$destdir" ] && [ $services = yes ] && [ -n "$daemons" ] && [ -d /run/systemd/system ]; then
    systemd=yes
fi

if [ $action = uninstall ]; then
    for name in $daemons; do
        [ $systemd = no ] || systemctl disable --now "$name" || true
        if [ $services = yes ]; then
            rm -f "$units/$name.service" "$sysusers/$name.conf"
        fi
    done
    for name in $programs; do
        rm -f "$destdir$prefix/bin/$name"
    done
    [ $systemd = no ] || systemctl daemon-reload
    echo "removed:$(printf ' %s' $programs)"
    for name in $daemons; do
        echo "left: /etc/$name (settings), /var/lib/$name (data)"
    done
    exit 0
fi

# Check everything before changing anything.
for name in $programs; do
    [ -x "$binaries/$name" ] ||
        fail "there is no program $binaries/$name; build it with 'cargo build --release --workspace', or name its directory with --binaries"
done
mkdir -p "$destdir$prefix/bin" || fail "cannot create $destdir$prefix/bin; use sudo, or another --prefix"
for name in $programs; do
    # A rename replaces a running program atomically.
    install -m 0755 "$binaries/$name" "$destdir$prefix/bin/.$name.new"
    mv -f "$destdir$prefix/bin/.$name.new" "$destdir$prefix/bin/$name"
done
if [ $services = yes ] && [ -n "$daemons" ]; then
    mkdir -p "$units" "$sysusers"
    for name in $daemons; do
        mkdir -p "$destdir/etc/$name"
        if [ -e "$destdir/etc/$name/$name.toml" ]; then
            echo "left alone: /etc/$name/$name.toml"
        else
            # A package's post-install step gives it to the daemon's group; see below.
            install -m 0644 "$root/deploy/$name.toml" "$destdir/etc/$name/$name.toml"
        fi
        sed "s|^ExecStart=/usr/local/bin/|ExecStart=$prefix/bin/|" "$root/deploy/systemd/$name.service" \
            >"$units/$name.service"
        chmod 0644 "$units/$name.service"
        install -m 0644 "$root/deploy/systemd/$name.sysusers" "$sysusers/$name.conf"
    done
fi
echo "installed in $prefix/bin:$(printf ' %s' $programs)"
if [ $systemd = yes ]; then
    for name in $daemons; do
        systemd-sysusers "$sysusers/$name.conf"
        # It may hold passwords.
        chgrp "$name" "/etc/$name/$name.toml"
        chmod 0640 "/etc/$name/$name.toml"
    done
    systemctl daemon-reload
    echo "Check /etc/*/*.toml, then start the daemons: systemctl enable --now$daemons"
elif [ $services = yes ] && [ -n "$daemons" ] && [ -z "$destdir" ]; then
    echo "systemd is not running: start the daemons by hand, or with your own service manager"
fi
