"""The data source "penstock", as Spark finds it: `pyspark_penstock.DefaultSource` is this class.

    spark.read.format("penstock").option("bootstrap", "127.0.0.1:9092").option("subscribe", "orders").load()

Where a job says .format("kafka"), it says .format("penstock") instead: options and columns are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.spark.options import batch_options, includes_headers, stream_options
from penstock.spark.rows import check_row_type, row_type

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter


class PenstockDataSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return row_type(with_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.reader import TopicReader

        options = batch_options(self.options)
        check_row_type(schema, with_headers=options.include_headers)
        return TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from penstock.spark.stream import TopicStreamReader

        options = stream_options(self.options)
        check_row_type(schema, with_headers=options.include_headers)
        return TopicStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.writer import TopicWriter

        return TopicWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from penstock.spark.writer import TopicStreamWriter

        return TopicStreamWriter(self.options, schema)
