"""`spark.read.format("penstock")`, with a real Spark and a real broker."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from ports import free_ports


@pytest.fixture
def read(spark, cluster):
    def load(topic, **options):
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        return spark.read.format("penstock").options(**given).load()

    return load


def test_a_topic_is_a_table_that_sql_can_ask(spark, cluster, write, read):
    topic = cluster.create_topic(partitions=2)
    write(topic, [str(n) for n in range(500)], key=[f"k{n % 5}" for n in range(500)])
    write(topic, ["1000"], partition=1, key=["other"])
    read(topic).createOrReplaceTempView("numbers")
    found = spark.sql(
        "select cast(key as string) as key, sum(cast(cast(value as string) as long)) as total, count(*) as count "
        "from numbers group by key order by key"
    )
    assert [tuple(row) for row in found.collect()] == [
        *((f"k{n}", sum(range(n, 500, 5)), 100) for n in range(5)),
        ("other", 1000, 1),
    ]


def test_one_word_is_all_that_differs_from_sparks_own_kafka_source(cluster, write, read):
    topic = cluster.create_topic()
    headers = [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}]]
    write(topic, ["a"], headers=headers)
    table = read(topic, includeHeaders="true", startingOffsets=f'{{"{topic}":{{"0":0}}}}', endingOffsets="latest")
    assert table.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    row = table.collect()[0]
    assert (row.key, bytes(row.value), row.topic, row.partition, row.offset) == (None, b"a", topic, 0, 0)
    assert [(each.key, each.value and bytes(each.value)) for each in row.headers] == [("h", b"1"), ("h", None)]


def test_tasks_are_as_many_as_asked_for_and_read_each_record_once(cluster, write, read):
    topic = cluster.create_topic()
    for start in range(0, 300, 100):
        write(topic, [str(start + n) for n in range(100)])
    table = read(topic, minPartitions="4")
    assert table.rdd.getNumPartitions() == 4
    assert [row.offset for row in table.select("offset").orderBy("offset").collect()] == list(range(300))


def test_an_empty_topic_is_an_empty_table(cluster, read):
    assert read(cluster.create_topic()).count() == 0


@pytest.mark.parametrize(
    ("topic", "options", "words"),
    [
        ("nowhere", {}, "There is no topic 'nowhere'. Create it with"),
        (
            "orders",
            {"startingOfsets": "earliest"},
            "Did you mean startingOffsets?",
        ),
        ("orders", {"startingOffsets": "latest"}, "The option startingOffsets is latest, where a batch finds nothing"),
        ("orders", {"kafka.bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}, "No broker answered at 127.0.0.1"),
    ],
)
def test_a_mistake_is_an_error_whose_last_line_says_what_is_wrong(read, topic, options, words):
    with pytest.raises(PySparkException) as caught:
        read(topic, **options).count()
    assert words in str(caught.value)


def test_an_offset_out_of_range_is_an_error_or_is_moved(cluster, write, read):
    topic = cluster.create_topic()
    write(topic, ["a", "b"])
    too_far = f'{{"{topic}": {{"0": 99}}}}'
    with pytest.raises(PySparkException, match="asks for offset 99 of partition"):
        read(topic, endingOffsets=too_far).count()
    assert read(topic, endingOffsets=too_far, failOnDataLoss="false").count() == 2
