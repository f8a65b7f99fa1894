#!/bin/sh
# Unpacks Debian's (or Ubuntu's) nginx into a folder: FOLDER/usr/sbin/nginx. Needs no root and installs nothing.
# The package that holds the binary is `nginx` or `nginx-core`, depending on the release; apt checks its signature.
set -eu

folder=$(realpath -m "$1")
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "no nginx on the PATH, and no apt-get to fetch one with" >&2; exit 1; }

mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
cd "$folder/apt"
# Lists and cache of our own: the machine's may be empty, and only root may fill them.
apt() {
    apt-get -qq -o Dir::State::Lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User=root "$@"
}

apt update >/dev/null
for package in nginx nginx-core; do
    apt download "$package" >/dev/null 2>&1 || continue
    dpkg-deb -x "$package"_*.deb "$folder"
done
rm -rf "$folder/apt"
"$folder/usr/sbin/nginx" -v
