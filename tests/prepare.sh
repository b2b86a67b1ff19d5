#!/bin/sh
# Installs what the tests can use beyond Python packages, where this machine allows it. Never fails: a test that misses
# something is skipped and says so.
if ! command -v kcat > /dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
        echo "Penstock: installing kcat, a Kafka client in C, for the conformance tests"
        apt-get install -qq -y kcat > /dev/null 2>&1 || { apt-get update -qq > /dev/null 2>&1 && apt-get install -qq -y kcat > /dev/null 2>&1; } || echo "Penstock: kcat could not be installed; its tests are skipped"
    else
        echo "Penstock: kcat is not here and cannot be installed without root; its tests are skipped"
    fi
fi
if ! command -v java > /dev/null 2>&1 || ! command -v mvn > /dev/null 2>&1; then
    echo "Penstock: no Java and Maven here; the comparison with Apache Kafka is skipped"
fi
exit 0
