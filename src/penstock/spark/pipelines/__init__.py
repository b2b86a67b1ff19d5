"""Pipelines: topics into lakes, tables and other topics, and back; declared with Spark's own declarative pipelines.

    penstock pipeline init shop lake topic=orders path=lake     a project in ./shop, from a ready pipeline
    penstock pipeline run shop                                  to the end of what is there
    penstock pipeline stream shop                               on and on

Ready pipelines, each a short file that defines a flow and that `init` copies:

    lake.py live.py mirror.py load.py upsert.py delta.py

What runs them:

    project.py      the project's spec and files
    ready.py        a project from a ready pipeline
    graph.py        what the files define
    runner.py       runs flows: bounded, or kept on
    sinks/          sinks beyond Spark's formats, exactly once
    progress.py     rows, rate, lag of a flow
    checkpoints.py  how far a flow has come, read without Spark
    reasons.py      what went wrong inside Spark, as a sentence
    session.py      a Spark session, here or on a cluster
"""
