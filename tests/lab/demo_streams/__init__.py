"""`make demo-streams`: a real Streams application on real brokers in three racks, led by Bellwether."""
