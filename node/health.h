/* health.h - is a run alive? Asked from outside, by a person or by what looks after containers.
 *
 * A node makes its metrics.jsonl new with each step, and about once a second while it computes a long step
 * or waits for others. So the file's age tells, without a connection and on a machine that is cut off. */
#ifndef NODE_HEALTH_H
#define NODE_HEALTH_H

enum { HEALTH_AGE_S = 30 };

/* Print one line on the run in `dir`, or on the newest of those in its folders. Exit status: 0 it made a sign
 * of life within HEALTH_AGE_S seconds, or is done; 1 it did not, or there is none. */
int health_print(const char *dir);

#endif
