"""The commands that give orders to running instances, and withdraw them (`give`, `apply`, `restart`). Every order is
checked (`check`), written as a record and, if asked, followed until it is in effect (`service`)."""
