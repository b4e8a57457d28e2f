/* health.h - is a run alive? For a person, or for a program that supervises containers.
 *
 * A node touches its metrics.jsonl with each step, and about once a second while it computes a long step or waits
 * for others. So the age of the file tells whether it is alive, without a connection and even if the network is
 * down. */
#ifndef NODE_HEALTH_H
#define NODE_HEALTH_H

enum { HEALTH_AGE_S = 30 };

/* Prints one line about the run in `dir`, or about the newest run in its folders and in those below, as of `meshnode
 * local`; in a pipeline also who has which stages. Exit status: 0 it made a sign of life within HEALTH_AGE_S seconds,
 * or is done; 1 it did not, or there is none. */
int health_print(const char *dir);

#endif
