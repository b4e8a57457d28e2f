/* discover_packets.c - see discover_packets.h. */
#include "mesh/net/discover_packets.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IP_LEAST = 20, UDP_SIZE = 8, PACKET_MAX = 256, PACKETS_AT_ONCE = 64 };

/* From the IP header on: UDP (17) to that port. */
static bool
filter(int fd, uint16_t port)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 4),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, PACKET_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

int
packets_open(uint16_t port)
{
    int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP));
    if (fd >= 0 && filter(fd, port))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool
read_beacon(const uint8_t *packet, size_t size, uint64_t group, struct network_beacon *out)
{
    struct proto_beacon beacon;
    size_t head = size ? 4u * (packet[0] & 15u) : 0;
    if (head < IP_LEAST || size < head + UDP_SIZE ||
        proto_beacon_decode(&beacon, packet + head + UDP_SIZE, size - head - UDP_SIZE) != 0 ||
        beacon.group != group || beacon.control_port == 0)
        return false;
    *out = (struct network_beacon){
        .kind = NETWORK_UNHEARD, .node = beacon.node, .port = beacon.control_port};
    return inet_ntop(AF_INET, packet + 12, out->host, sizeof out->host);
}

bool
packets_next(int fd, uint64_t group, struct network_beacon *out, char interface[IF_NAMESIZE])
{
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        uint8_t packet[PACKET_MAX];
        struct sockaddr_ll from = {0};
        socklen_t from_size = sizeof from;
        ssize_t size = recvfrom(fd, packet, sizeof packet, 0, (struct sockaddr *)&from, &from_size);
        if (size < 0)
            return false;
        if (from.sll_pkttype == PACKET_BROADCAST &&
            if_indextoname((unsigned)from.sll_ifindex, interface) &&
            read_beacon(packet, (size_t)size, group, out))
            return true;
    }
    return false;
}
