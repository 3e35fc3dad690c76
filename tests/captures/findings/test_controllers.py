"""Controllers of ZooKeeper mode, and topics that they create and delete: facts in, findings out."""

from __future__ import annotations

from tests.support.cluster_story import LEADER_AND_ISR, ClusterStory

OTHER = "10.0.0.3:9092"


def changing(*seconds: float, story: ClusterStory | None = None) -> ClusterStory:
    """The controller moves between nodes 1 and 2 at these times."""
    story = (story or ClusterStory()).control(1, 1)
    for number, second in enumerate(seconds):
        story.at(second).control(2 - number % 2, number + 2).control(2 - number % 2, number + 2, broker=OTHER)
    return story


# --- controller.failover, controller.churn ---


def test_another_controller_is_an_info() -> None:
    (finding,) = changing(10).tells("INFO controller.failover controller", at_least="INFO")
    assert finding.summary == (
        "node 2 is the controller since epoch 2; node 1 failed, or lost its session with ZooKeeper"
    )
    assert finding.occurrences == 1


def test_a_request_that_comes_late_shows_the_controller_before() -> None:
    story = changing(10)
    story.made = story.made[1:] + story.made[:1]
    story.tells("INFO controller.failover controller", at_least="INFO")


def test_the_first_controller_is_quiet() -> None:
    ClusterStory().control(1, 7).control(1, 7, broker=OTHER).at(5).control(1, 7).tells(at_least="INFO")


def test_errors_of_partitions_are_quiet() -> None:
    """Only the error of the whole answer reaches the fact."""
    ClusterStory().zookeeper().at(1).zookeeper().tells(at_least="INFO")


def test_a_controller_that_changes_again_and_again() -> None:
    story = changing(10, 60, 300)
    (finding,) = story.tells("WARN controller.churn controller")
    assert finding.summary == "3 changes of the controller in 290 s"
    found = story.found()
    assert {one.parent for one in found if one.rule == "controller.failover"} == {found[0].id}


def test_changes_that_are_far_apart_are_quiet() -> None:
    changing(10, 500, 1000, 1500).is_quiet()


def test_two_changes_that_many_brokers_are_told_of_are_quiet() -> None:
    story = changing(10, 60)
    for port in range(20):
        story.control(1, 3, broker=f"10.0.0.4:{9000 + port}")
    story.is_quiet()


def test_a_rolling_restart_is_quiet() -> None:
    story = ClusterStory().control(1, 1)
    for number, second in enumerate((10, 60, 300)):
        story.at(second).leaving(1 + number % 2).at(second + 5).control(2 - number % 2, number + 2)
    story.is_quiet()


def test_a_deposed_controller() -> None:
    story = changing(10).at(20).control(1, 1, 11).at(21).control(1, 1, 11)
    story.tells("NOTE controller.failover controller")
    (finding,) = story.at(22).control(1, 1, 11).tells("WARN controller.failover controller")
    assert finding.summary == "node 1 still acts as controller of epoch 1, and brokers refuse it (3 times)"


def views(story: ClusterStory, *controllers: int, twice: bool = True) -> ClusterStory:
    """Metadata of one broker that names these controllers, one after the other."""
    for number, controller in enumerate(controllers):
        for second in range(1 + twice):
            story.at(10 * number + second).cluster("c")
            story.made[-1] = story.made[-1]._replace(controller=controller)
    return story


def zookeeper() -> ClusterStory:
    story = ClusterStory()
    story.offered("c", Metadata=(0, 5))
    story.made[-1] = story.made[-1]._replace(ranges=((LEADER_AND_ISR, 0, 1),))
    return story


def test_changes_that_metadata_tells_are_a_note() -> None:
    views(zookeeper(), 1, 2, 1, 2).tells("NOTE controller.churn controller")


def test_metadata_of_kraft_names_any_broker() -> None:
    views(ClusterStory(), 1, 2, 1, 2, 3, 1).is_quiet()


def test_a_controller_that_is_named_once_is_quiet() -> None:
    views(zookeeper(), 1, 2, 1, 2, 1, 2, twice=False).is_quiet()


# --- topic.lifecycle ---


def test_topics_come_and_go() -> None:
    story = ClusterStory().changes("orders").changes("orders").at(9).changes("orders", created=False)
    story.tells("INFO topic.lifecycle orders", "INFO topic.lifecycle orders", at_least="INFO")
    assert {one.summary for one in story.found()} == {"orders was created", "orders was deleted"}


def test_many_topics_are_one_finding() -> None:
    story = ClusterStory()
    for number in range(130):
        story.changes(f"t{number}")
    found = story.found()
    assert len(found) == 101
    (rest,) = [one for one in found if one.scope.kind == "cluster"]
    assert rest.summary == "30 further changes, such as t129 created"


def test_names_that_kafka_does_not_allow_are_nonsense() -> None:
    ClusterStory().changes("5x漢").changes("").tells(at_least="INFO")


def test_records_of_the_past_are_not_told() -> None:
    ClusterStory().changes("orders", past=True).tells(at_least="INFO")


def test_new_partitions_in_leader_and_isr() -> None:
    story = ClusterStory().zookeeper(leader_epoch=0, version=0, new=True, api_version=1)
    story.tells("INFO topic.lifecycle t", at_least="INFO")


def test_a_new_controller_tells_of_all_partitions() -> None:
    """Before version 1 nothing tells new partitions from old ones."""
    told = {"leader_epoch": 0, "version": 0}

    def said(story: ClusterStory) -> ClusterStory:
        story.zookeeper(**told)
        story.made[-1] = story.made[-1]._replace(at=story.made[-1].at._replace(broker="10.0.0.2:9092"))
        return story

    said(ClusterStory().control().at(1)).tells(at_least="INFO")
    said(ClusterStory().control().at(20)).tells("INFO topic.lifecycle t", at_least="INFO")


def test_a_deletion_that_waits() -> None:
    story = ClusterStory().control().deletes("orders").at(30).control().at(70).control()
    (finding,) = [one for one in story.found() if one.severity]
    assert (finding.rule, finding.severity.name) == ("topic.lifecycle", "WARN")
    assert finding.summary == "orders was marked for deletion 70 s ago and still exists"


def stopped(story: ClusterStory, broker: str) -> ClusterStory:
    """A broker is told to delete its replica of t."""
    story.changes("t", created=False)
    at = story.made[-1].at._replace(key=5, broker=broker)
    story.made[-1] = story.made[-1]._replace(at=at)
    return story


def test_a_deletion_that_waits_for_a_broker() -> None:
    """One of two brokers with replicas is told to delete them."""
    story = stopped(ClusterStory().control().zookeeper().deletes("t"), OTHER).at(70).control()
    (finding,) = [one for one in story.found() if one.severity]
    assert finding.summary == "t was marked for deletion 70 s ago and still exists"
    assert not [one for one in story.found() if "was deleted" in one.summary]
    both = stopped(stopped(ClusterStory().control().zookeeper().deletes("t"), OTHER), "10.0.0.2:9092").at(70).control()
    assert [one.summary for one in both.found() if one.rule == "topic.lifecycle"] == ["t was deleted"]


def test_a_deletion_that_is_done_is_quiet() -> None:
    story = ClusterStory().control().deletes("orders").at(30).changes("orders", created=False)
    story.at(70).control().is_quiet()


def test_a_refused_deletion_is_quiet() -> None:
    ClusterStory().control().deletes("orders", 29).at(30).control().at(70).control().is_quiet()


def test_a_deletion_without_the_controllers_requests_is_quiet() -> None:
    ClusterStory().deletes("orders").at(70).beat(1).is_quiet()
    ClusterStory().control().at(1).deletes("orders").at(70).beat(1).is_quiet()


def test_a_deletion_with_gaps_is_quiet() -> None:
    story = ClusterStory().control().deletes("orders").at(30).control()
    story.trouble("controller 1")
    story.at(70).beat(1)
    assert not [one for one in story.found() if one.rule == "topic.lifecycle"]
