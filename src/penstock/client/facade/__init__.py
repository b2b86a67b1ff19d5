"""Producer and Consumer for programs, over librdkafka (confluent-kafka): small, typed, for any Kafka.

    producer.py  async_producer.py      three ways to send
    consumer.py  async_consumer.py      iterate, in batches, commit, seek
    transaction.py  async_transaction.py    all or nothing, with a consumer's position
    process.py                          read, process, write
    intake.py                           what a consumer took since its last transaction
    consumer_settings.py                what a consumer can be told
    membership.py                       which partitions it has, and where it begins in them
    progress.py                         what was handed out, what is done, what may be committed
    message.py  client_error.py         what comes back
    librdkafka.py                       the library underneath, and its options

`import penstock` is instant: these are loaded at first use. They add what people miss and hide nothing: `.raw` is
librdkafka's own object, and every option of librdkafka goes through `options=`.
"""
