"""Everything that talks to brokers: `wire` over sockets, `client` through librdkafka."""
