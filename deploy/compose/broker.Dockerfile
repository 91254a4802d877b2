# A broker of the composition with Bellwether's assignors on its class path.
FROM maven:3-eclipse-temurin-17 AS build
WORKDIR /src
COPY LICENSE LICENSE
COPY deploy/broker-assignor deploy/broker-assignor
RUN mvn -q -B -f deploy/broker-assignor package

FROM apache/kafka:4.3.0
COPY --from=build /src/deploy/broker-assignor/target/broker-assignor.jar /opt/kafka/libs/
