#!/bin/sh
# The stage of one test, in namespaces of its own: pretend addresses on `lo`, the test's own resolver, large process
# numbers, and the programs where an ordinary user can reach them. Ends with everything on it.
#
#     stage.sh DIRECTORY UID GATEWAY TEST-PROGRAM TEST
set -eu
stage=$1 uid=$2 gateway=$3 program=$4 name=$5

ip link set lo up
for address in 9.9.9.9 10.0.0.1 169.254.169.254; do
    ip address add "$address/32" dev lo
done
ip -6 address add fd00::1/128 dev lo nodad

# The far sides have a network of their own: addresses of the gateway's own host are refused for being that.
setsid unshare --net sh -c "ip link set lo up; read -r _; exec python3 '$stage/attacker/abroad.py' '$stage'" < "$stage/go" &
exec 8> "$stage/go"
abroad=$!
while [ "$(readlink "/proc/$abroad/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link add home type veth peer name abroad netns "$abroad"
ip address add 192.0.2.1/24 dev home
ip -6 address add 2001:db8::1/64 dev home nodad
ip link set home up
nsenter --target "$abroad" --net sh -eu -c '
    ip address add 192.0.2.2/24 dev abroad
    ip -6 address add 2001:db8::2/64 dev abroad nodad
    for address in 93.184.216.34 93.184.216.40; do ip address add "$address/32" dev abroad; done
    ip -6 address add 2606:4700::1111/128 dev abroad nodad
    ip link set abroad up'
ip route add default via 192.0.2.2
ip -6 route add default via 2001:db8::2
echo >&8

# So that an ordinary user can stand where the attacker expects somebody, and to have no number twice: inside and here.
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
echo 30000 > /proc/sys/kernel/ns_last_pid || true

for file in hosts resolv.conf nsswitch.conf; do
    mount --bind "$stage/etc/$file" "$(readlink -f "/etc/$file")"
done
mount -t tmpfs -o mode=1777 none /dev/shm
mkdir -p "$stage/bin"
for file in gateway program; do
    touch "$stage/bin/$file"
done
mount --bind "$gateway" "$stage/bin/gateway"
mount --bind "$program" "$stage/bin/program"

# The far sides are there when the last of their doors is.
until grep -q ready "$stage/abroad" 2> /dev/null; do sleep 0.02; done

# Belongs to root, where there is one.
cp /usr/bin/id "$stage/setuid-program"
chmod 4755 "$stage/setuid-program"

export PORTREEVE_STAGE="$stage" PORTREEVE_BIN="$stage/bin/gateway" HOME="$stage"
exec 8>&-
set -- "$stage/bin/program" --exact "$name" --nocapture
cd "$stage"
read -r _ outside _ < /proc/self/uid_map
if [ "$uid" = 0 ]; then
    exec "$@"
elif [ "$outside" = 0 ]; then
    exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
else
    # We are root in a user namespace only: back to who we were.
    exec unshare --user --map-user="$uid" --map-group="$uid" "$@"
fi
