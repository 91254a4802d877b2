"""Brokers in the place of the transport, of which only descriptions of groups are asked."""

from bellwether_kafka.coordinator.membership import DescribeAnswer


class DescribingBrokers:
    """Answer with one of `answers` after the other, and then with the last; an error is raised. `asked` are the groups
    of all requests."""

    def __init__(self, *answers: DescribeAnswer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.asked.append(group_id)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
