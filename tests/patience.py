"""How long tests wait for what must come: a bound that only a broken run meets, on a machine that is several times
slower than the one it was written on. What a promise bounds is measured and asserted on its own."""

PATIENCE = 4.0
