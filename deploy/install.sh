#!/bin/sh
# Installs the daemons, jobctl, the systemd units and the settings on this machine, or removes them.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/install.sh [OPTION]... [orchestrator] [compute-agent] [jobctl]

Installs the named programs, or all of them. compute-agent brings wasm-runner, which runs
WebAssembly programs for it. Installing again upgrades them, keeps existing settings files, and
says what a fresh installation would set. It starts nothing.

A fresh installation asks every caller for credentials; an agent joins the orchestrator of the
same machine by itself.

Options:
  --binaries DIR  directory of the programs (default: target/release of this checkout)
  --prefix DIR    install programs into DIR/bin (default: /usr/local)
  --no-services   install programs only: no units, no users, no settings
  --uninstall     stop the daemons, remove programs and units; settings, data and users stay
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

# Where an orchestrator leaves join tokens for agents on its machine; its unit makes the directory.
left_token=/run/orchestrator/join

# The settings that a fresh installation does not leave at their defaults, one `key = value` a line.
fresh_settings() {
    case $1 in
        orchestrator)
            echo 'auth = "required"'
            echo "join_token_file = \"$left_token\""
            ;;
        compute-agent)
            if grep -qs "^join_token_file = \"$left_token\"" "$destdir/etc/orchestrator/orchestrator.toml"; then
                echo 'listen = "127.0.0.1:1235"'
                echo 'orchestrator = "https://127.0.0.1:1234"'
                echo "join_token_file = \"$left_token\""
            fi
            ;;
    esac
}

# Prints the sample settings of a daemon, with those of a fresh installation set.
settings() {
    fresh_settings "$1" | awk -v sample="$root/deploy/$1.toml" '
        { split($0, parts, " = "); set[parts[1]] = $0 }
        END {
            while ((getline line < sample) > 0) {
                # Only in front of the first table: keys of tables may have the same names.
                if (line ~ /^\[/) table = 1
                key = line
                sub(/^#/, "", key)
                sub(/ = .*/, "", key)
                if (!table && line ~ /^#[a-z_]+ = / && key in set) { line = set[key]; delete set[key] }
                print line
            }
            for (key in set) { print "install.sh: there is no setting " key > "/dev/stderr"; exit 1 }
        }'
}

# Says what a fresh installation would set, and which settings are new, where a file is kept.
kept_settings() {
    file=$destdir/etc/$1/$1.toml
    echo "kept: /etc/$1/$1.toml"
    fresh_settings "$1" | while read -r setting; do
        grep -qxF "$setting" "$file" || echo "  a fresh installation sets $setting"
    done
    new=$(sed -n 's/^#\([a-z_]*\) = .*/\1/p' "$root/deploy/$1.toml" | while read -r key; do
        grep -q "^#\{0,1\}$key = " "$file" || printf ' %s' "$key"
    done)
    [ -z "$new" ] || echo "  it does not mention$new; '$1 --help' explains them"
}

units=$destdir/etc/systemd/system
sysusers=$destdir/etc/sysusers.d
# In this order: the agent's settings depend on the orchestrator's.
daemons=
for name in orchestrator compute-agent; do
    case " $names " in *" $name "*) daemons="$daemons $name" ;; esac
done
# Call systemd only if it runs, and not while building a package.
systemd=no
if [ -z "$destdir" ] && [ $services = yes ] && [ -n "$daemons" ] && [ -d /run/systemd/system ]; then
    systemd=yes
fi

if [ $action = uninstall ]; then
    for name in $daemons; do
        if [ $systemd = yes ]; then
            systemctl disable --now "$name" || true
            # The unit leaves wasm programs running, for the next agent.
            systemctl kill --kill-whom=all "$name" 2>/dev/null || true
        fi
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
            kept_settings "$name"
        else
            # It may hold passwords; the daemon's group gets it below, or after a package's installation.
            # Half a file would be kept by the next installation, which would then ask no one for credentials.
            install -m 0640 /dev/null "$destdir/etc/$name/.$name.toml.new"
            settings "$name" >"$destdir/etc/$name/.$name.toml.new"
            mv "$destdir/etc/$name/.$name.toml.new" "$destdir/etc/$name/$name.toml"
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
        chgrp "$name" "/etc/$name/$name.toml"
        chmod 0640 "/etc/$name/$name.toml"
    done
    systemctl daemon-reload
    echo "Check /etc/*/*.toml, then start the daemons: systemctl enable --now$daemons"
    if grep -qxs 'auth = "required"' /etc/orchestrator/orchestrator.toml; then
        echo "Then sign in: jobctl login --token-file /var/lib/orchestrator/admin.token"
    elif [ "$daemons" = " compute-agent" ]; then
        echo "For an orchestrator on another machine, set orchestrator to its https:// address, and join_token_file"
        echo "to a file with what 'jobctl node token' prints there"
    fi
elif [ $services = yes ] && [ -n "$daemons" ] && [ -z "$destdir" ]; then
    echo "systemd is not running: start the daemons by hand, or with your own service manager"
fi
