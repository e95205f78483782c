"""A session of Spark for the tests of tables."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    # It would still say that it closes when nothing listens any more.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.adaptive.enabled": "false",
        # Compiling a statement takes longer than these few rows, and so does the best compiler of Java.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[1]").appName("contract").config(map=options).getOrCreate()
    yield session
    session.stop()
