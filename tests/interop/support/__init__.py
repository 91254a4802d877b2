"""What tests on real brokers share with the programs that measure there: brokers, clients, instances, applications."""
