"""Topics as tables of Spark: `spark.read`, `readStream`, `write` and `writeStream` with `.format("penstock")`.

    source.py        what Spark finds: readers, writers, the schema
    options.py       the options, as Spark's own Kafka source has them
    subscription.py  which partitions are read
    snapshot.py      where these partitions begin and end now
    bounds.py        where reading starts and ends
    ranges.py        offset ranges: splits for more cores, limits for a micro-batch
    reader.py        a bounded read
    stream.py        a streaming read, micro-batch by micro-batch
    offsets.py       what Spark keeps of a stream in its checkpoint
    progress.py      a stream's progress as a group's offsets
    writer.py        the sink, batch and stream, as Spark calls it
    sink_options.py  its options; sink_task, sink_batch, sink_marker: what makes it exact
    java.py          a Java for Spark, also where the machine has none

Spark runs this code in Python processes of its own: the plan on the driver, `read` and `write` on the executors. What
travels between them is pickled and small; connections are opened where they are used. It needs pyspark 4.3 and pyarrow.
"""
