/* core_contact.h - a node that was heard, and how far a session with it came: for people. */
#ifndef MESH_CORE_CONTACT_H
#define MESH_CORE_CONTACT_H

#include <stdbool.h>

#include "proto/proto.h"

/* How far this node and one that it hears came, which have no session. */
enum core_gap {
    /* they have one, or there is nothing to wonder about: not heard now, refused, gone */
    CORE_GAP_NONE,
    CORE_GAP_SILENT, /* its beacons come, but no connection, in neither direction */
    CORE_GAP_OURS,   /* its connections reach us, ours do not reach it */
    CORE_GAP_THEIRS, /* ours reach it, its own do not reach us */
    CORE_GAP_BOTH,   /* both do, and still there is no session */
};

/* A node that was heard, now or earlier. */
struct core_contact {
    struct proto_endpoint at;
    char name[PROTO_NAME_MAX];   /* what it calls itself; "" unknown */
    bool here;                   /* there is a session */
    bool met;                    /* there was one */
    bool settled;                /* refused, or gone with a goodbye, or without a job */
    bool heard;                  /* a moment ago */
    bool linked;                 /* our connection to it is up, or was a moment ago */
    bool greeted;                /* its HELLO came over its connection */
    enum proto_refusal refused;  /* why one of us refuses the other; 0: none does */
    char theirs[PROTO_TEXT_MAX]; /* what it has there instead, as it says */
    struct proto_hello hello;    /* the last one; without a control_port none came */
    enum core_gap gap;
};

#endif
