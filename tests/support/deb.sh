#!/bin/sh
# deb.sh PROGRAM VERSION: a Debian package of a static program (build/meshnode-amd64 and such), beside it. It depends on
# nothing, so it is for any release of Debian and Ubuntu: the program, its man page, the jobs of configs/ as examples, and the
# licences of all that is in it. Twice the same program gives twice the same package.
set -eu
program=$1 version=$2
arch=${program##*-}
here=$(dirname "$0")
package=$(dirname "$program")/meshnode_${version}_$arch.deb
root=$(mktemp -d)
chmod 755 "$root"
trap 'rm -rf "$root"' EXIT
doc=$root/usr/share/doc/meshnode

install -D -m 755 "$program" "$root/usr/bin/meshnode"
install -D -m 644 node/meshnode.1 "$root/usr/share/man/man1/meshnode.1"
gzip -9n "$root/usr/share/man/man1/meshnode.1"
install -d "$doc/examples" "$root/DEBIAN"
for job in configs/*; do
    case $job in configs/chaos-*) ;; *) install -m 644 "$job" "$doc/examples" ;; esac # those are for tests
done
{
    cat LICENSE
    for library in $("$here/deps.sh" --libraries build static) libc6-dev libstdc++6; do
        printf '\n---- %s ----\n\n' "$library"
        cat "/usr/share/doc/$library/copyright"
    done
} >"$doc/copyright"
chmod 644 "$doc/copyright"
cat >"$root/DEBIAN/control" <<END
Package: meshnode
Version: $version
Architecture: $arch
Maintainer: the meshnode authors <meshnode@example.invalid>
Installed-Size: $(du -k -s "$root/usr" | cut -f 1)
Section: science
Priority: optional
Description: train one neural network on all machines that run it
 A peer-to-peer training mesh. You start one small program on every machine of a
 LAN. The nodes find one another and train one neural network together. There is
 no master, and you may kill any node at any time.
 .
 The trained weights have the same SHA-256 on any number of nodes. This program
 contains all libraries that it needs.
END
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package: $(du --apparent-size -h "$package" | cut -f 1)"
