"""The commands that give orders to running instances, and withdraw them. Every order is checked (`check`), written as a
record (`write`) and, if asked, followed until it is in effect (`follow`)."""
