"""The exponential mechanism over all small databases, drawn exactly and without enumerating them.

Blum, Ligett and Roth ("A learning theory approach to noninteractive database privacy", J. ACM 60, 2013; Dwork and Roth
2014, Algorithm 4) answer a set Q of counting queries on a table x by a database y of m rows that is chosen with
probability proportional to exp(-epsilon L(y) / (2 Delta)), where L is the largest error over Q. Here

    L(y) = max over q in Q of |W q(y) - m q(x)|        a whole number, in units of 1/m of a count,

W is the number of rows, public or measured with noise beforehand, and q(.) counts rows. Given W, adding, removing or
replacing one privacy unit of g rows changes every q(x) by at most g, so L by at most Delta = m g.

    databases   which y there are, and how many each vector of counts stands for (the base measure)
    laminar     workloads whose queries are nested or disjoint, read off public declarations
    kernels     counting the y inside a box of answers, compiled
    forest      the same from outside: counting, drawing, correcting for rounding, exactly
    frontier    other workloads with few open queries at a time, in whole numbers
    general     small workloads of any kind: every candidate is weighed
    layers      the draw: first the level of the largest error, then a database within it
    existence   how well some small database must fit, whatever the data, and the bound that follows
    shapes      which of these a workload has
"""
