-- marginals of rows
SELECT
  COALESCE("cell_0", "cell_1", "cell_2") AS "cell",
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS BIGINT) + (
      "code_0" * CAST(1 AS BIGINT)
    ) AS "cell_0",
    CAST(4 AS BIGINT) + (
      "code_0" * CAST(3 AS BIGINT)
    ) + "code_2" * CAST(1 AS BIGINT) AS "cell_1",
    CAST(16 AS BIGINT) + (
      "code_1" * CAST(1 AS BIGINT)
    ) AS "cell_2"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        CASE
          WHEN NOT NOT "number_0" IS NULL
          THEN CAST(3 AS BIGINT)
          WHEN NOT "number_0" IS NULL
          THEN CASE
            WHEN "number_0" >= CAST('18.0' AS DOUBLE)
            THEN CASE
              WHEN "number_0" >= CAST('65.0' AS DOUBLE)
              THEN CAST(2 AS BIGINT)
              ELSE CAST(1 AS BIGINT)
            END
            ELSE CAST(0 AS BIGINT)
          END
        END AS "code_0",
        CASE
          WHEN "number_1" >= CAST('0.0' AS DOUBLE) AND "number_1" <= CAST('10.0' AS DOUBLE)
          THEN CASE
            WHEN "number_1" >= CAST('0.5' AS DOUBLE)
            THEN CAST(1 AS BIGINT)
            ELSE CAST(0 AS BIGINT)
          END
        END AS "code_1",
        CASE
          WHEN "text_2" = 'f'
          THEN CAST(0 AS BIGINT)
          WHEN "text_2" = 'm'
          THEN CAST(1 AS BIGINT)
          WHEN "text_2" = 'it''s \'
          THEN CAST(2 AS BIGINT)
          ELSE CAST(2 AS BIGINT)
        END AS "code_2"
      FROM (
        SELECT
          *,
          NULLIF(
            CASE
              WHEN CASE
                WHEN "any_number_0" < CAST('-9007199254740992.0' AS DOUBLE)
                THEN CAST('-9007199254740992.0' AS DOUBLE)
                WHEN "any_number_0" > CAST('9007199254740992.0' AS DOUBLE)
                THEN CAST('9007199254740992.0' AS DOUBLE)
                ELSE "any_number_0"
              END = CAST(FLOOR(
                CASE
                  WHEN "any_number_0" < CAST('-9007199254740992.0' AS DOUBLE)
                  THEN CAST('-9007199254740992.0' AS DOUBLE)
                  WHEN "any_number_0" > CAST('9007199254740992.0' AS DOUBLE)
                  THEN CAST('9007199254740992.0' AS DOUBLE)
                  ELSE "any_number_0"
                END
              ) AS DOUBLE)
              THEN "any_number_0"
            END,
            CAST('-9.0' AS DOUBLE)
          ) AS "number_0"
        FROM (
          SELECT
            *,
            CASE
              WHEN REGEXP_LIKE(
                "text_0",
                '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\z'
              )
              THEN TRY_CAST("text_0" AS DOUBLE)
            END AS "any_number_0",
            CASE
              WHEN REGEXP_LIKE(
                "text_1",
                '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\z'
              )
              THEN TRY_CAST("text_1" AS DOUBLE)
            END AS "number_1"
          FROM (
            SELECT
              NULLIF(
                NULLIF(
                  NULLIF(
                    TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("age" AS VARCHAR)),
                    ''
                  ),
                  '-9'
                ),
                'n/a'
              ) AS "text_0",
              NULLIF(
                TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("wage" AS VARCHAR)),
                ''
              ) AS "text_1",
              NULLIF(
                NULLIF(
                  TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("sex" AS VARCHAR)),
                  ''
                ),
                'x'
              ) AS "text_2"
            FROM "ward"."patients"
          ) AS below
        ) AS below
      ) AS below
    ) AS below
    WHERE
      NOT "code_0" IS NULL AND NOT "code_1" IS NULL AND NOT "code_2" IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    ("cell_0"),
    ("cell_1"),
    ("cell_2")
  );

-- a category among many
SELECT
  COALESCE("cell_0") AS "cell",
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS BIGINT) + (
      "code_0" * CAST(1 AS BIGINT)
    ) AS "cell_0"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        below.*,
        COALESCE("position", CAST(NULL AS BIGINT)) AS "code_0"
      FROM (
        SELECT
          NULLIF(
            TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("ward" AS VARCHAR)),
            ''
          ) AS "text_0"
        FROM "ward"."patients"
      ) AS below
      LEFT JOIN (
        SELECT
          "category",
          CAST("position" AS BIGINT) AS "position"
        FROM (VALUES
          ('é', 0),
          ('w0', 1),
          ('w1', 2),
          ('w2', 3),
          ('w3', 4),
          ('w4', 5),
          ('w5', 6),
          ('w6', 7),
          ('w7', 8),
          ('w8', 9),
          ('w9', 10),
          ('w10', 11),
          ('w11', 12),
          ('w12', 13),
          ('w13', 14),
          ('w14', 15),
          ('w15', 16),
          ('w16', 17),
          ('w17', 18),
          ('w18', 19),
          ('w19', 20),
          ('w20', 21),
          ('w21', 22),
          ('w22', 23),
          ('w23', 24),
          ('w24', 25),
          ('w25', 26),
          ('w26', 27),
          ('w27', 28),
          ('w28', 29),
          ('w29', 30),
          ('w30', 31),
          ('w31', 32),
          ('w32', 33),
          ('w33', 34),
          ('w34', 35),
          ('w35', 36),
          ('w36', 37),
          ('w37', 38),
          ('w38', 39),
          ('w39', 40),
          ('w40', 41),
          ('w41', 42),
          ('w42', 43),
          ('w43', 44),
          ('w44', 45),
          ('w45', 46),
          ('w46', 47),
          ('w47', 48),
          ('w48', 49),
          ('w49', 50),
          ('w50', 51),
          ('w51', 52),
          ('w52', 53),
          ('w53', 54),
          ('w54', 55),
          ('w55', 56),
          ('w56', 57),
          ('w57', 58),
          ('w58', 59),
          ('w59', 60),
          ('w60', 61),
          ('w61', 62),
          ('w62', 63),
          ('w63', 64)) AS named("category", "position")
      ) AS named
        ON "text_0" = "category"
    ) AS below
    WHERE
      NOT "code_0" IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    ("cell_0")
  );

-- dates
SELECT
  COALESCE("cell_0", "cell_1", "cell_2") AS "cell",
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS BIGINT) + (
      "code_0" * CAST(1 AS BIGINT)
    ) AS "cell_0",
    CAST(2 AS BIGINT) + (
      "code_1" * CAST(1 AS BIGINT)
    ) AS "cell_1",
    CAST(26 AS BIGINT) + (
      "code_2" * CAST(1 AS BIGINT)
    ) AS "cell_2"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        CASE
          WHEN NOT "number_0" IS NULL
          THEN CASE
            WHEN "number_0" >= CAST('18628.0' AS DOUBLE)
            THEN CAST(1 AS BIGINT)
            ELSE CAST(0 AS BIGINT)
          END
        END AS "code_0",
        CASE
          WHEN "number_1" >= CAST('1704067200.0' AS DOUBLE)
          AND "number_1" < CAST('1735689600.0' AS DOUBLE)
          THEN CAST(FLOOR(
            (
              "number_1" - (
                CAST(FLOOR("number_1" / CAST('86400.0' AS DOUBLE)) AS DOUBLE) * CAST('86400.0' AS DOUBLE)
              )
            ) / CAST('3600.0' AS DOUBLE)
          ) AS BIGINT)
        END AS "code_1",
        CASE
          WHEN NOT "number_2" IS NULL
          THEN CASE
            WHEN "number_2" >= CAST('1980.0' AS DOUBLE)
            THEN CAST(1 AS BIGINT)
            ELSE CAST(0 AS BIGINT)
          END
        END AS "code_2"
      FROM (
        SELECT
          *,
          CASE
            WHEN CASE
              WHEN "operation_1" < CAST('-9007199254740992.0' AS DOUBLE)
              THEN CAST('-9007199254740992.0' AS DOUBLE)
              WHEN "operation_1" > CAST('9007199254740992.0' AS DOUBLE)
              THEN CAST('9007199254740992.0' AS DOUBLE)
              ELSE "operation_1"
            END = CAST(FLOOR(
              CASE
                WHEN "operation_1" < CAST('-9007199254740992.0' AS DOUBLE)
                THEN CAST('-9007199254740992.0' AS DOUBLE)
                WHEN "operation_1" > CAST('9007199254740992.0' AS DOUBLE)
                THEN CAST('9007199254740992.0' AS DOUBLE)
                ELSE "operation_1"
              END
            ) AS DOUBLE)
            THEN "operation_1"
          END AS "number_2",
          CASE WHEN NOT "operation_1" IS NULL THEN '1' END AS "text_2"
        FROM (
          SELECT
            *,
            CAST(EXTRACT(YEAR FROM DATE_ADD('DAY', CAST("number_0" AS BIGINT), CAST('1970-01-01' AS DATE))) AS DOUBLE) AS "operation_1"
          FROM (
            SELECT
              *,
              (
                (
                  CAST('365.0' AS DOUBLE) * (
                    "year_of_date_0" - "shift_of_date_0"
                  ) + (
                    CAST(FLOOR((
                      "year_of_date_0" - "shift_of_date_0"
                    ) / CAST('4.0' AS DOUBLE)) AS DOUBLE) - CAST(FLOOR((
                      "year_of_date_0" - "shift_of_date_0"
                    ) / CAST('100.0' AS DOUBLE)) AS DOUBLE)
                  ) + CAST(FLOOR((
                    "year_of_date_0" - "shift_of_date_0"
                  ) / CAST('400.0' AS DOUBLE)) AS DOUBLE) + CAST(FLOOR(
                    (
                      (
                        CAST('153.0' AS DOUBLE) * (
                          (
                            "month_of_date_0" + (
                              CAST('12.0' AS DOUBLE) * "shift_of_date_0"
                            )
                          ) - CAST('3.0' AS DOUBLE)
                        )
                      ) + CAST('2.0' AS DOUBLE)
                    ) / CAST('5.0' AS DOUBLE)
                  ) AS DOUBLE) + "day_of_date_0"
                ) - CAST('719469.0' AS DOUBLE)
              ) AS "number_0",
              CASE
                WHEN REGEXP_LIKE("written_of_date_1", '^.*:[0-9.]+(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)\z')
                THEN "instant_of_date_1" + CAST('0.0' AS DOUBLE)
                ELSE "wall_of_date_1"
              END AS "number_1"
            FROM (
              SELECT
                *,
                (
                  "wall_of_date_1" - (
                    (
                      CAST('3600.0' AS DOUBLE) * "ahead_hours_of_date_1"
                    ) + (
                      CAST('60.0' AS DOUBLE) * "ahead_minutes_of_date_1"
                    )
                  )
                ) + (
                  (
                    CAST('3600.0' AS DOUBLE) * "behind_hours_of_date_1"
                  ) + (
                    CAST('60.0' AS DOUBLE) * "behind_minutes_of_date_1"
                  )
                ) AS "instant_of_date_1"
              FROM (
                SELECT
                  *,
                  (
                    (
                      (
                        (
                          (
                            (
                              (
                                CAST('365.0' AS DOUBLE) * (
                                  "year_of_date_1" - "shift_of_date_1"
                                ) + (
                                  CAST(FLOOR((
                                    "year_of_date_1" - "shift_of_date_1"
                                  ) / CAST('4.0' AS DOUBLE)) AS DOUBLE) - CAST(FLOOR((
                                    "year_of_date_1" - "shift_of_date_1"
                                  ) / CAST('100.0' AS DOUBLE)) AS DOUBLE)
                                ) + CAST(FLOOR((
                                  "year_of_date_1" - "shift_of_date_1"
                                ) / CAST('400.0' AS DOUBLE)) AS DOUBLE) + CAST(FLOOR(
                                  (
                                    (
                                      CAST('153.0' AS DOUBLE) * (
                                        (
                                          "month_of_date_1" + (
                                            CAST('12.0' AS DOUBLE) * "shift_of_date_1"
                                          )
                                        ) - CAST('3.0' AS DOUBLE)
                                      )
                                    ) + CAST('2.0' AS DOUBLE)
                                  ) / CAST('5.0' AS DOUBLE)
                                ) AS DOUBLE) + "day_of_date_1"
                              ) - CAST('719469.0' AS DOUBLE)
                            ) * CAST('24.0' AS DOUBLE)
                          ) + "hour_of_date_1"
                        ) * CAST('60.0' AS DOUBLE)
                      ) + "minute_of_date_1"
                    ) * CAST('60.0' AS DOUBLE)
                  ) + "second_of_date_1" AS "wall_of_date_1"
                FROM (
                  SELECT
                    *,
                    CASE
                      WHEN "month_of_date_0" <= CAST('2.0' AS DOUBLE)
                      THEN CAST('1.0' AS DOUBLE)
                      ELSE CAST('0.0' AS DOUBLE)
                    END AS "shift_of_date_0",
                    CASE
                      WHEN "month_of_date_1" <= CAST('2.0' AS DOUBLE)
                      THEN CAST('1.0' AS DOUBLE)
                      ELSE CAST('0.0' AS DOUBLE)
                    END AS "shift_of_date_1"
                  FROM (
                    SELECT
                      *,
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_0", '.', 3), ''), 1, 4) AS DOUBLE) AS "year_of_date_0",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_0", '.', 2), ''), 1, 2) AS DOUBLE) AS "month_of_date_0",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_0", '.', 1), ''), 1, 2) AS DOUBLE) AS "day_of_date_0",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_1", '-', 1), ''), 1, 4) AS DOUBLE) AS "year_of_date_1",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_1", '-', 2), ''), 1, 2) AS DOUBLE) AS "month_of_date_1",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART("written_of_date_1", '-', 3), ''), 1, 2) AS DOUBLE) AS "day_of_date_1",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), 1, 2) AS DOUBLE) AS "hour_of_date_1",
                      TRY_CAST(SUBSTR(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), 4, 2) AS DOUBLE) AS "minute_of_date_1",
                      TRY_CAST(CASE
                        WHEN SUBSTR(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), 6, 1) = ':'
                        THEN SUBSTR(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), 7, 2)
                        ELSE '0'
                      END AS DOUBLE) AS "second_of_date_1",
                      TRY_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '+', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        ) = ''
                        THEN '0'
                        ELSE SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '+', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        )
                      END AS DOUBLE) AS "ahead_hours_of_date_1",
                      TRY_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '+', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        ) = ''
                        THEN '0'
                        ELSE SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '+', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        )
                      END AS DOUBLE) AS "ahead_minutes_of_date_1",
                      TRY_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '-', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        ) = ''
                        THEN '0'
                        ELSE SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '-', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        )
                      END AS DOUBLE) AS "behind_hours_of_date_1",
                      TRY_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '-', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        ) = ''
                        THEN '0'
                        ELSE SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT_PART(COALESCE(SPLIT_PART(REPLACE("written_of_date_1", 'T', ' '), ' ', 2), ''), '-', 2),
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        )
                      END AS DOUBLE) AS "behind_minutes_of_date_1"
                    FROM (
                      SELECT
                        *,
                        CASE
                          WHEN REGEXP_LIKE(
                            "text_0",
                            '^((0?[1-9]|1[0-9]|2[0-8])[.](0?[1-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|(29|30)[.](0?[13-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|31[.](0?[13578]|1[02])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|29[.]0?2[.]([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00))([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)?\z'
                          )
                          THEN "text_0"
                        END AS "written_of_date_0",
                        CASE
                          WHEN REGEXP_LIKE(
                            "text_1",
                            '^(([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13-9]|1[0-2])-(29|30)|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13578]|1[02])-31|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)\z'
                          )
                          THEN "text_1"
                        END AS "written_of_date_1"
                      FROM (
                        SELECT
                          NULLIF(
                            TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("day" AS VARCHAR)),
                            ''
                          ) AS "text_0",
                          NULLIF(
                            TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("seen" AS VARCHAR)),
                            ''
                          ) AS "text_1"
                        FROM "ward"."patients"
                      ) AS below
                    ) AS below
                  ) AS below
                ) AS below
              ) AS below
            ) AS below
          ) AS below
        ) AS below
      ) AS below
    ) AS below
    WHERE
      NOT "code_0" IS NULL AND NOT "code_1" IS NULL AND NOT "code_2" IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    ("cell_0"),
    ("cell_1"),
    ("cell_2")
  );

-- rows of persons
SELECT
  "by_0",
  COUNT(*)
FROM (
  SELECT
    CAST(FLOOR(
      CASE
        WHEN (
          "number_0" * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
        THEN CAST('0.0' AS DOUBLE)
        WHEN (
          "number_0" * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
        THEN CAST('1000.0' AS DOUBLE)
        ELSE (
          "number_0" * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE)
      END
    ) AS BIGINT) AS "by_0"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY "unit_id"
          ORDER BY MOD(
            (
              MOD(
                MOD("value_0", CAST(1000003 AS BIGINT)) * CAST(977801 AS BIGINT),
                CAST(1000003 AS BIGINT)
              ) + MOD(
                MOD("value_1", CAST(1000003 AS BIGINT)) * CAST(45324 AS BIGINT),
                CAST(1000003 AS BIGINT)
              )
            ),
            CAST(1000003 AS BIGINT)
          ), "value_0", "value_1", "code_0", "code_1"
        ) AS "rank_of_row"
      FROM (
        SELECT
          *,
          CAST(FLOOR(
            CASE
              WHEN (
                "number_0" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
              THEN CAST('0.0' AS DOUBLE)
              WHEN (
                "number_0" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
              THEN CAST('1000.0' AS DOUBLE)
              ELSE (
                "number_0" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE)
            END
          ) AS BIGINT) AS "value_0",
          "code_1" AS "value_1"
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              CASE
                WHEN "number_0" >= CAST('0.0' AS DOUBLE) AND "number_0" <= CAST('10.0' AS DOUBLE)
                THEN CASE
                  WHEN "number_0" >= CAST('0.5' AS DOUBLE)
                  THEN CAST(1 AS BIGINT)
                  ELSE CAST(0 AS BIGINT)
                END
              END AS "code_0",
              CASE
                WHEN "text_1" = 'f'
                THEN CAST(0 AS BIGINT)
                WHEN "text_1" = 'm'
                THEN CAST(1 AS BIGINT)
                WHEN "text_1" = 'it''s \'
                THEN CAST(2 AS BIGINT)
                ELSE CAST(2 AS BIGINT)
              END AS "code_1"
            FROM (
              SELECT
                *,
                CASE
                  WHEN REGEXP_LIKE(
                    "text_0",
                    '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\z'
                  )
                  THEN TRY_CAST("text_0" AS DOUBLE)
                END AS "number_0"
              FROM (
                SELECT
                  *
                FROM (
                  SELECT
                    NULLIF(
                      TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("wage" AS VARCHAR)),
                      ''
                    ) AS "text_0",
                    NULLIF(
                      NULLIF(
                        TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("sex" AS VARCHAR)),
                        ''
                      ),
                      'x'
                    ) AS "text_1",
                    NULLIF(
                      TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("who's" AS VARCHAR)),
                      ''
                    ) AS "unit_id"
                  FROM "ward"."patients"
                ) AS below
                WHERE
                  NOT "unit_id" IS NULL
              ) AS below
            ) AS below
          ) AS below
          WHERE
            NOT "code_0" IS NULL AND NOT "code_1" IS NULL
        ) AS below
      ) AS below
    ) AS below
    WHERE
      "rank_of_row" <= CAST(2 AS BIGINT)
  ) AS below
) AS below
GROUP BY
  "by_0";

-- texts of persons
SELECT
  MIN("text"),
  COUNT(*)
FROM (
  SELECT
    "text_0" AS "text",
    "text_0" AS "key"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY "unit_id"
          ORDER BY LOWER(TO_HEX(SHA256(TO_UTF8("text_0")))), "text_0"
        ) AS "rank_of_row"
      FROM (
        SELECT
          *
        FROM (
          SELECT
            *,
            CASE
              WHEN "text_0" = 'f'
              THEN CAST(0 AS BIGINT)
              WHEN "text_0" = 'm'
              THEN CAST(1 AS BIGINT)
              WHEN "text_0" = 'it''s \'
              THEN CAST(2 AS BIGINT)
              ELSE CAST(2 AS BIGINT)
            END AS "code_0"
          FROM (
            SELECT
              *
            FROM (
              SELECT
                NULLIF(
                  NULLIF(
                    TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("sex" AS VARCHAR)),
                    ''
                  ),
                  'x'
                ) AS "text_0",
                NULLIF(
                  TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("who's" AS VARCHAR)),
                  ''
                ) AS "unit_id"
              FROM "ward"."patients"
            ) AS below
            WHERE
              NOT "unit_id" IS NULL
          ) AS below
        ) AS below
        WHERE
          NOT "text_0" IS NULL
      ) AS below
    ) AS below
    WHERE
      "rank_of_row" <= CAST(2 AS BIGINT)
  ) AS below
) AS below
GROUP BY
  "key";

-- one value a person
SELECT
  COALESCE("cell_0") AS "cell",
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS BIGINT) + (
      "code_0" * CAST(2 AS BIGINT)
    ) + "code_1" * CAST(1 AS BIGINT) AS "cell_0"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY "unit_id"
          ORDER BY MOD(
            (
              MOD(
                MOD("value_0", CAST(1000003 AS BIGINT)) * CAST(354198 AS BIGINT),
                CAST(1000003 AS BIGINT)
              ) + MOD(
                MOD("value_1", CAST(1000003 AS BIGINT)) * CAST(544885 AS BIGINT),
                CAST(1000003 AS BIGINT)
              )
            ),
            CAST(1000003 AS BIGINT)
          ), "value_0", "value_1", "code_0", "code_1"
        ) AS "rank_of_row"
      FROM (
        SELECT
          *,
          "code_0" AS "value_0",
          CAST(FLOOR(
            CASE
              WHEN (
                "number_1" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
              THEN CAST('0.0' AS DOUBLE)
              WHEN (
                "number_1" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) > CAST('10000.0' AS DOUBLE)
              THEN CAST('10000.0' AS DOUBLE)
              ELSE (
                "number_1" * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE)
            END
          ) AS BIGINT) AS "value_1"
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              CASE
                WHEN "text_0" = 'f'
                THEN CAST(0 AS BIGINT)
                WHEN "text_0" = 'm'
                THEN CAST(1 AS BIGINT)
                ELSE CASE WHEN "text_0" IS NULL THEN CAST(1 AS BIGINT) ELSE CAST(NULL AS BIGINT) END
              END AS "code_0",
              CASE
                WHEN NOT "number_1" IS NULL
                THEN CASE
                  WHEN "number_1" >= CAST('10.0' AS DOUBLE)
                  THEN CAST(1 AS BIGINT)
                  ELSE CAST(0 AS BIGINT)
                END
              END AS "code_1"
            FROM (
              SELECT
                *,
                CAST("taken_0" AS VARCHAR) AS "text_0",
                "taken_1" AS "number_1",
                CASE WHEN NOT "taken_1" IS NULL THEN '1' END AS "text_1"
              FROM (
                SELECT
                  below.*,
                  CAST("category" AS VARCHAR) AS "taken_0"
                FROM (
                  SELECT
                    *,
                    (
                      CAST(CAST(CASE
                        WHEN "value_of_person_1" < CAST(-9007199254740992 AS DECIMAL(38, 0))
                        THEN CAST(-9007199254740992 AS DECIMAL(38, 0))
                        WHEN "value_of_person_1" > CAST(9007199254740992 AS DECIMAL(38, 0))
                        THEN CAST(9007199254740992 AS DECIMAL(38, 0))
                        ELSE "value_of_person_1"
                      END AS BIGINT) AS DOUBLE) / CAST('100.0' AS DOUBLE)
                    ) AS "taken_1"
                  FROM (
                    SELECT
                      "unit_id",
                      MIN(CASE WHEN "rank_of_value_0" = "end_of_person_0" THEN "code_0" END) AS "value_of_person_0",
                      SUM(
                        CAST(CAST(FLOOR(
                          CASE
                            WHEN (
                              "number_1" * CAST('100.0' AS DOUBLE)
                            ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
                            THEN CAST('0.0' AS DOUBLE)
                            WHEN (
                              "number_1" * CAST('100.0' AS DOUBLE)
                            ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
                            THEN CAST('1000.0' AS DOUBLE)
                            ELSE (
                              "number_1" * CAST('100.0' AS DOUBLE)
                            ) + CAST('0.5' AS DOUBLE)
                          END
                        ) AS BIGINT) AS DECIMAL(18, 0))
                      ) AS "value_of_person_1"
                    FROM (
                      SELECT
                        *,
                        MAX("rank_of_value_0") OVER (PARTITION BY "unit_id") AS "end_of_person_0"
                      FROM (
                        SELECT
                          *,
                          COUNT("code_0") OVER (PARTITION BY "unit_id", "code_0") AS "rank_of_value_0"
                        FROM (
                          SELECT
                            *,
                            CASE
                              WHEN "text_0" = 'f'
                              THEN CAST(0 AS BIGINT)
                              WHEN "text_0" = 'm'
                              THEN CAST(1 AS BIGINT)
                              ELSE CAST(NULL AS BIGINT)
                            END AS "code_0"
                          FROM (
                            SELECT
                              *,
                              CAST("operation_1" AS VARCHAR) AS "text_0",
                              "number_3" AS "number_1",
                              CASE WHEN NOT "number_3" IS NULL THEN '1' END AS "text_1"
                            FROM (
                              SELECT
                                *,
                                NULLIF(
                                  TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST(SUBSTR("text_2", 1, 1) AS VARCHAR)),
                                  ''
                                ) AS "operation_1"
                              FROM (
                                SELECT
                                  *,
                                  CASE
                                    WHEN REGEXP_LIKE(
                                      "text_3",
                                      '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\z'
                                    )
                                    THEN TRY_CAST("text_3" AS DOUBLE)
                                  END AS "number_3"
                                FROM (
                                  SELECT
                                    *
                                  FROM (
                                    SELECT
                                      NULLIF(
                                        NULLIF(
                                          TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("sex" AS VARCHAR)),
                                          ''
                                        ),
                                        'x'
                                      ) AS "text_2",
                                      NULLIF(
                                        TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("wage" AS VARCHAR)),
                                        ''
                                      ) AS "text_3",
                                      NULLIF(
                                        TRIM(BOTH CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13)) FROM CAST("who's" AS VARCHAR)),
                                        ''
                                      ) AS "unit_id"
                                    FROM "ward"."patients"
                                  ) AS below
                                  WHERE
                                    NOT "unit_id" IS NULL
                                ) AS below
                              ) AS below
                            ) AS below
                          ) AS below
                        ) AS below
                      ) AS below
                    ) AS below
                    GROUP BY
                      "unit_id"
                  ) AS below
                ) AS below
                LEFT JOIN (
                  SELECT
                    "category",
                    CAST("position" AS BIGINT) AS "position"
                  FROM (VALUES
                    ('f', 0),
                    ('m', 1)) AS named("category", "position")
                ) AS named
                  ON "value_of_person_0" = "position"
              ) AS below
            ) AS below
          ) AS below
          WHERE
            NOT "code_0" IS NULL AND NOT "code_1" IS NULL
        ) AS below
      ) AS below
    ) AS below
    WHERE
      "rank_of_row" <= CAST(1 AS BIGINT)
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    ("cell_0")
  );
