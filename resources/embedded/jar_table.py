"""Which jars Spark needs beyond its own, with the hashes of what we have tried.

`DELTA` always; `S3` where the lake is in an object store. For S3 that is Hadoop's connector of the
release PySpark ships, with the parts of the AWS SDK it calls (the bundle Hadoop names holds every
service, 686 MB; these are 13), and Spark's binding of its committers (not published for 4.2: the
three classes of 4.1.2 work with it). PySpark has what these need of Netty, Apache HTTP and slf4j.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Jar:
    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def _jars(table: str) -> tuple[Jar, ...]:
    """Read `group version` lines, each with its `sha256 name` lines below."""
    found, group, version = [], "", ""
    for line in table.strip().splitlines():
        first, second = line.split()
        if line.startswith(" "):
            found.append(Jar(group, second, version, first))
        else:
            group, version = first, second
    return tuple(found)


DELTA = _jars("""
io.delta 4.4.0
  27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead delta-spark_4.2_2.13
  c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc delta-storage
  ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11 delta-kernel-api
  225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b delta-kernel-defaults
  cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa delta-kernel-unitycatalog
io.unitycatalog 0.6.0
  48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19 unitycatalog-client
  c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150 unitycatalog-hadoop
""")
S3 = _jars("""
org.apache.hadoop 3.5.0
  66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa hadoop-aws
org.apache.spark 4.1.2
  672d7d872f434cb7fe1c90f7edcd19b1e8c67a335a578288426fbd4db5096915 spark-hadoop-cloud_2.13
org.reactivestreams 1.0.4
  f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28 reactive-streams
software.amazon.awssdk 2.35.4
  6f36bd87155d1dd85d6efbdd29e532e3759a022211feb71affebee1aa34f04b8 annotations
  6eade21b482724ed0a4613eaa95d20e47e7a81304bd28538ac427fece94a7740 apache-client
  c63cc29f76a8527e9e10b621703163df541dc5cb315508dc2898518602c75380 arns
  6b601323004833fb4a857ffc95db4795e0e6320eb93e64b1246c655c9ff04994 auth
  fdb5fc8f1a48d97fa7d04d3460fb42f6973c7b1bbe1b9d317871ef0162bcb623 aws-core
  9b4cf9b78977cc9f5b4ceae9c435dedbde6a055a0f8d9e053eaca945715e2a9f aws-query-protocol
  4f59176da2522c357b1993e4a890fde529f12f365795ef86269bde4a3984cd0d aws-xml-protocol
  94464af4374d08ecf33ca06ed4d03e1615529e547726e26b56abacefbeee7948 checksums
  88b5af85ac2d3c862be8856be4e683ab31932e4a5a3c1c45af864d2671ac7cec checksums-spi
  2c6aaa17bf9ccbb9d962dded4351e73decb197e3c5519970e0dae17e05d3df62 crt-core
  ef02441bda916959b8341290b49c68cc35538e1ad6f8629b75d8334dc6653e00 endpoints-spi
  3ec933a06e751a05e195eb3589209e23c44e1897263b6fcae34ef4cc63cd4491 http-auth
  c4acb92fdec90bfd9b67bfab8e41b69cd152c03cacc10281a8ab464791856e01 http-auth-aws
  709107552f302be3fa9e05969a3779f5c0f07fb809e6fa1fa571a6f0c61326dd http-auth-aws-eventstream
  4495463406bb98eb136f2c3f3604ed5f08ec9974ebc3f34f2121b20679f61d5c http-auth-spi
  728be89b2a07b595edb0adee3a2cbbbdd4cb1f4caddde0d08c3979fe2620dedb http-client-spi
  188d73db7d4e2361654bc3c5a1b3eaeb445d0500fb012cc46c5d67975adf97bf identity-spi
  80d67a6bb3e7eb49c7d4b6e4ba4c1463ed7da0192b795158328602dc131c5ecc json-utils
  c2a4ee90a21081317e2e6eba0c414d05d3d518aed2f86b1c1710a7367b450487 metrics-spi
  b82f8b33e5c85273a47da45ede884d7ccb31c9c2f69e6910a76c5c48fa1275dc netty-nio-client
  0f4ef7ca72ccd80dd49ebeaf7f3ce60a7d7a00da59a91aeeae6e91052bbacbd8 profiles
  f2532eca6ba2142fe4821d5decb03c83a3e15dc8bfae2240e7f2efa75f9868b5 protocol-core
  77eae87b34ce96ecdf916a9bc06684dbeafcb6d38ef0513285fa5d5d6d41f5ca regions
  f99fb2f8c66d7e859955b3542d3af8f9de8f23a21d5e3250f0f2c5f18487e469 retries
  668638751d059c527ddd41ffa4dcebe36a7c14860ed56776df09b861c14dc7dd retries-spi
  f23532c5223be9b0bfec0d72837ed09ed34dbdf8022818ba145b20076a78b4bc s3
  0eec78870b3d0abc509a847072cf963cb2ae6e360dc6161a9449b3398c470476 s3-transfer-manager
  fa559a4ce598852f3519c8f3b36250f583b0858a7611eedc4a81997778c617f4 sdk-core
  8d0f7816d3f96e3f00249f5d054d926e939a104bcf9ef57676ee0b16c59684d2 sts
  32f4252c6c2df8f3a4aff885e6dc77024ad6b4cb48455d07b461ec30c41643ea third-party-jackson-core
  642aeef536a071668f0b772f05f9d21573abf6955e7b6fb5fdb893760cca10e8 utils
  e004806def5e22ec98edc48a133ff3317166255e1ba29d93d129e9fdfa64a7be utils-lite
software.amazon.eventstream 1.0.1
  0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822 eventstream
software.amazon.s3.analyticsaccelerator 1.3.1
  4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e analyticsaccelerator-s3
""")
# By `bench backfill` alone, for the peer.
POSTGRES_JDBC = _jars("""
org.postgresql 42.7.7
  157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460 postgresql
""")
