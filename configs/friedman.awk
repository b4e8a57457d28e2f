# The table of configs/regression.yaml: awk -f configs/friedman.awk > configs/friedman.csv
#
# Five numbers uniform in (0, 1), and
#     y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise of deviation 1
# (Friedman: Multivariate adaptive regression splines, The Annals of Statistics 19, 1991). The numbers are those of
# Park and Miller's generator, whose products fit in a double.
function uniform() {
    seed = seed * 16807 % 2147483647
    return seed / 2147483647
}
BEGIN {
    seed = 1991
    pi = atan2(0, -1)
    print "x1,x2,x3,x4,x5,y"
    for (row = 0; row < 1200; row++) {
        for (i = 1; i <= 5; i++)
            x[i] = sprintf("%.3f", uniform()) + 0
        noise = sqrt(-2 * log(uniform())) * cos(2 * pi * uniform())
        y = 10 * sin(pi * x[1] * x[2]) + 20 * (x[3] - 0.5) * (x[3] - 0.5) + 10 * x[4] + 5 * x[5] + noise
        printf "%.3f,%.3f,%.3f,%.3f,%.3f,%.2f\n", x[1], x[2], x[3], x[4], x[5], y
    }
}
