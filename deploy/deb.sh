#!/bin/sh
# Builds a Debian package of both daemons and jobctl from existing programs.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/deb.sh [--binaries DIR] [--version VERSION] [--output DIR]

Options:
  --binaries DIR     directory of orchestrator, compute-agent, wasm-runner and jobctl
                     (default: target/HOST/dist of this checkout, which `just static` fills)
  --version VERSION  version of the package (default: that of the programs, with date and commit)
  --output DIR       where to put the package (default: target/deb of this checkout)

It prints the name of the package. The programs run during the build: they print their manual
pages and completions.

Environment variables: DEBFULLNAME and DEBEMAIL, the maintainer (default: the author of the commit),
and DEB_COMPRESSION, as dpkg-deb's -Z.
TEXT
}

fail() {
    echo "deb.sh: $*" >&2
    exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
binaries=$target/$(uname -m)-unknown-linux-gnu/dist
output=$target/deb
version=
while [ $# -gt 0 ]; do
    case $1 in
        --binaries) [ $# -gt 1 ] || fail "--binaries needs a directory"; binaries=$2; shift ;;
        --version) [ $# -gt 1 ] || fail "--version needs a version"; version=$2; shift ;;
        --output) [ $# -gt 1 ] || fail "--output needs a directory"; output=$2; shift ;;
        --help) usage; exit 0 ;;
        *) fail "unknown argument '$1'; try --help" ;;
    esac
    shift
done
command -v dpkg-deb >/dev/null || fail "dpkg-deb is not installed: this needs Debian, or a system made from it"
programs="orchestrator compute-agent wasm-runner jobctl"
for name in $programs; do
    [ -x "$binaries/$name" ] ||
        fail "there is no program $binaries/$name; build it with 'just static', or name its directory with --binaries"
done

package=job-orchestrator
# The times of the files: the same commit gives the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
if [ -z "$version" ]; then
    commit=$(git -C "$root" rev-parse --short=10 HEAD 2>/dev/null || echo unknown)
    version=$("$binaries/orchestrator" --version | sed 's/^[a-z]* v\([^ ]*\).*/\1/')
    version=$version+git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$commit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
DESTDIR=$tree "$root/deploy/install.sh" --prefix /usr --binaries "$binaries" >/dev/null
# What a package brings is below /usr; /etc is for what an administrator changes.
mkdir -p "$tree/usr/lib"
mv "$tree/etc/systemd" "$tree/etc/sysusers.d" "$tree/usr/lib/"

# The libraries of programs that are not static.
depends="systemd | systemd-standalone-sysusers"
glibc=0
for name in $programs; do
    if ldd "$binaries/$name" 2>/dev/null | grep -q 'libc\.so'; then
        needed=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binaries/$name" | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
        glibc=$(printf '%s\n%s\n' "$glibc" "$needed" | sort -V | tail -n 1)
    fi
    ! command -v strip >/dev/null || strip --strip-unneeded -R .comment -R .note "$tree/usr/bin/$name"
done
[ "$glibc" = 0 ] || depends="libc6 (>= $glibc), libgcc-s1, $depends"

# A manual page of a daemon, from its help.
manual() {
    "$binaries/$1" --help | awk -v name="$1" -v version="$version" '
        function roff(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^[.\x27]/, "\\\\\\&&", text); return text }
        NR == 1 {
            sub(/^[^:]*: /, "")
            printf ".TH %s 8 \"\" \"%s\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, name, roff($0)
        }
        NR == 1 || /^$/ { next }
        sub(/^Usage: /, "") { printf ".SH SYNOPSIS\n%s\n", roff($0); next }
        /^[^ ].*:$/ { sub(/:$/, ""); note = $0; sub(/ \(.*/, ""); printf ".SH %s\n", toupper(roff($0));
            if (note != $0) { sub(/^[^(]*\(/, "", note); sub(/\)$/, "", note); print roff(note) }
            next }
        /^Exit codes: / { printf ".SH EXIT STATUS\n"; sub(/^Exit codes: /, "") }
        /^      / { sub(/^ */, ""); if (/^Default: /) print ".br"; print roff($0); next }
        /^  [^ ]/ { sub(/^ */, ""); word = rest = $0; sub(/  .*/, "", word); sub(/^.*  +/, "", rest);
            printf ".TP\n.B %s\n%s\n", roff(word), rest == word ? "" : roff(rest); next }
        { print roff($0) }'
}
mkdir -p "$tree/usr/share/man/man1" "$tree/usr/share/man/man8"
for name in orchestrator compute-agent; do
    manual "$name" >"$tree/usr/share/man/man8/$name.8"
done
"$binaries/jobctl" man "$tree/usr/share/man/man1" >/dev/null
gzip -9n "$tree"/usr/share/man/man*/*

completions() {
    mkdir -p "$tree/usr/share/$(dirname "$2")"
    "$binaries/jobctl" completions "$1" >"$tree/usr/share/$2"
}
completions bash bash-completion/completions/jobctl
completions zsh zsh/vendor-completions/_jobctl
completions fish fish/vendor_completions.d/jobctl.fish

documents=$tree/usr/share/doc/$package
mkdir -p "$documents" "$tree/usr/share/lintian/overrides"
gzip -9nc "$root/CHANGELOG.md" >"$documents/CHANGELOG.md.gz"
cp "$root/deploy/debian/copyright" "$documents/copyright"
author() { git -C "$root" log -1 --format="$1" 2>/dev/null || echo "$2"; }
maintainer="${DEBFULLNAME:-$(author %an unknown)} <${DEBEMAIL:-$(author %ae unknown@localhost)}>"
gzip -9nc >"$documents/changelog.gz" <<TEXT
$package ($version) unstable; urgency=medium

  * CHANGELOG.md says what changed.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT
cp "$root/deploy/debian/lintian-overrides" "$tree/usr/share/lintian/overrides/$package"
chmod -R u=rwX,go=rX "$tree/usr/share"

mkdir "$tree/DEBIAN"
for script in preinst postinst prerm postrm; do
    install -m 0755 "$root/deploy/debian/$script" "$tree/DEBIAN/$script"
done
(cd "$tree" && find etc -type f | sort | sed 's|^|/|') >"$tree/DEBIAN/conffiles"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
cat >"$tree/DEBIAN/control" <<TEXT
Package: $package
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f 1)
Depends: $depends
Suggests: docker.io, git, git-lfs
Section: admin
Priority: optional
Description: job orchestration service, with its agent and its command line
 Accepts jobs over HTTP and runs them in containers, or as WebAssembly programs,
 on the nodes of a cluster. The package has the orchestrator, the compute agent
 of a node, and the command line jobctl; it starts neither daemon by itself.
TEXT
chmod 0644 "$tree/DEBIAN/conffiles" "$tree/DEBIAN/md5sums" "$tree/DEBIAN/control"

mkdir -p "$output"
file=$output/${package}_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group ${DEB_COMPRESSION:+-Z"$DEB_COMPRESSION"} --build "$tree" "$file" >/dev/null
echo "$file"
