"""The model of the group against a real broker: the same script on both, every answer compared."""

from tests.interop.brokers import KafkaCluster
from tests.simulation.script import Model, Real, Script


def test_the_model_answers_as_a_real_broker_does(kafka: KafkaCluster) -> None:
    real = Real(kafka.bootstrap, "conformance")
    said = Script(real)
    try:
        said.run()
    finally:
        real.close()
    expected = Script(Model(real.ids, kafka.initial_rebalance_delay_ms / 1000))
    expected.run()
    assert len(said.notes) > 60
    assert expected.notes == said.notes
