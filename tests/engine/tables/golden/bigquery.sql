-- marginals of rows
SELECT
  COALESCE(`cell_0`, `cell_1`, `cell_2`) AS `cell`,
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS INT64) + (
      `code_0` * CAST(1 AS INT64)
    ) AS `cell_0`,
    CAST(4 AS INT64) + (
      `code_0` * CAST(3 AS INT64)
    ) + `code_2` * CAST(1 AS INT64) AS `cell_1`,
    CAST(16 AS INT64) + (
      `code_1` * CAST(1 AS INT64)
    ) AS `cell_2`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        CASE
          WHEN NOT NOT `number_0` IS NULL
          THEN CAST(3 AS INT64)
          WHEN NOT `number_0` IS NULL
          THEN CASE
            WHEN `number_0` >= CAST('18.0' AS FLOAT64)
            THEN CASE
              WHEN `number_0` >= CAST('65.0' AS FLOAT64)
              THEN CAST(2 AS INT64)
              ELSE CAST(1 AS INT64)
            END
            ELSE CAST(0 AS INT64)
          END
        END AS `code_0`,
        CASE
          WHEN `number_1` >= CAST('0.0' AS FLOAT64) AND `number_1` <= CAST('10.0' AS FLOAT64)
          THEN CASE
            WHEN `number_1` >= CAST('0.5' AS FLOAT64)
            THEN CAST(1 AS INT64)
            ELSE CAST(0 AS INT64)
          END
        END AS `code_1`,
        CASE
          WHEN `text_2` = 'f'
          THEN CAST(0 AS INT64)
          WHEN `text_2` = 'm'
          THEN CAST(1 AS INT64)
          WHEN `text_2` = 'it\'s \\'
          THEN CAST(2 AS INT64)
          ELSE CAST(2 AS INT64)
        END AS `code_2`
      FROM (
        SELECT
          *,
          NULLIF(
            CASE
              WHEN CASE
                WHEN `any_number_0` < CAST('-9007199254740992.0' AS FLOAT64)
                THEN CAST('-9007199254740992.0' AS FLOAT64)
                WHEN `any_number_0` > CAST('9007199254740992.0' AS FLOAT64)
                THEN CAST('9007199254740992.0' AS FLOAT64)
                ELSE `any_number_0`
              END = CAST(FLOOR(
                CASE
                  WHEN `any_number_0` < CAST('-9007199254740992.0' AS FLOAT64)
                  THEN CAST('-9007199254740992.0' AS FLOAT64)
                  WHEN `any_number_0` > CAST('9007199254740992.0' AS FLOAT64)
                  THEN CAST('9007199254740992.0' AS FLOAT64)
                  ELSE `any_number_0`
                END
              ) AS FLOAT64)
              THEN `any_number_0`
            END,
            CAST('-9.0' AS FLOAT64)
          ) AS `number_0`
        FROM (
          SELECT
            *,
            CASE
              WHEN REGEXP_CONTAINS(
                `text_0`,
                '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$'
              )
              THEN SAFE_CAST(`text_0` AS FLOAT64)
            END AS `any_number_0`,
            CASE
              WHEN REGEXP_CONTAINS(
                `text_1`,
                '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$'
              )
              THEN SAFE_CAST(`text_1` AS FLOAT64)
            END AS `number_1`
          FROM (
            SELECT
              NULLIF(
                NULLIF(
                  NULLIF(
                    TRIM(
                      CAST(`age` AS STRING),
                      CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                    ),
                    ''
                  ),
                  '-9'
                ),
                'n/a'
              ) AS `text_0`,
              NULLIF(
                TRIM(
                  CAST(`wage` AS STRING),
                  CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                ),
                ''
              ) AS `text_1`,
              NULLIF(
                NULLIF(
                  TRIM(
                    CAST(`sex` AS STRING),
                    CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                  ),
                  ''
                ),
                'x'
              ) AS `text_2`
            FROM `ward`.`patients`
          ) AS below
        ) AS below
      ) AS below
    ) AS below
    WHERE
      NOT `code_0` IS NULL AND NOT `code_1` IS NULL AND NOT `code_2` IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    (`cell_0`),
    (`cell_1`),
    (`cell_2`)
  );

-- a category among many
SELECT
  COALESCE(`cell_0`) AS `cell`,
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS INT64) + (
      `code_0` * CAST(1 AS INT64)
    ) AS `cell_0`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        below.*,
        COALESCE(`position`, CAST(NULL AS INT64)) AS `code_0`
      FROM (
        SELECT
          NULLIF(
            TRIM(
              CAST(`ward` AS STRING),
              CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
            ),
            ''
          ) AS `text_0`
        FROM `ward`.`patients`
      ) AS below
      LEFT JOIN (
        SELECT
          `category`,
          CAST(`position` AS INT64) AS `position`
        FROM UNNEST([
          STRUCT('é' AS `category`, 0 AS `position`),
          STRUCT('w0' AS `category`, 1 AS `position`),
          STRUCT('w1' AS `category`, 2 AS `position`),
          STRUCT('w2' AS `category`, 3 AS `position`),
          STRUCT('w3' AS `category`, 4 AS `position`),
          STRUCT('w4' AS `category`, 5 AS `position`),
          STRUCT('w5' AS `category`, 6 AS `position`),
          STRUCT('w6' AS `category`, 7 AS `position`),
          STRUCT('w7' AS `category`, 8 AS `position`),
          STRUCT('w8' AS `category`, 9 AS `position`),
          STRUCT('w9' AS `category`, 10 AS `position`),
          STRUCT('w10' AS `category`, 11 AS `position`),
          STRUCT('w11' AS `category`, 12 AS `position`),
          STRUCT('w12' AS `category`, 13 AS `position`),
          STRUCT('w13' AS `category`, 14 AS `position`),
          STRUCT('w14' AS `category`, 15 AS `position`),
          STRUCT('w15' AS `category`, 16 AS `position`),
          STRUCT('w16' AS `category`, 17 AS `position`),
          STRUCT('w17' AS `category`, 18 AS `position`),
          STRUCT('w18' AS `category`, 19 AS `position`),
          STRUCT('w19' AS `category`, 20 AS `position`),
          STRUCT('w20' AS `category`, 21 AS `position`),
          STRUCT('w21' AS `category`, 22 AS `position`),
          STRUCT('w22' AS `category`, 23 AS `position`),
          STRUCT('w23' AS `category`, 24 AS `position`),
          STRUCT('w24' AS `category`, 25 AS `position`),
          STRUCT('w25' AS `category`, 26 AS `position`),
          STRUCT('w26' AS `category`, 27 AS `position`),
          STRUCT('w27' AS `category`, 28 AS `position`),
          STRUCT('w28' AS `category`, 29 AS `position`),
          STRUCT('w29' AS `category`, 30 AS `position`),
          STRUCT('w30' AS `category`, 31 AS `position`),
          STRUCT('w31' AS `category`, 32 AS `position`),
          STRUCT('w32' AS `category`, 33 AS `position`),
          STRUCT('w33' AS `category`, 34 AS `position`),
          STRUCT('w34' AS `category`, 35 AS `position`),
          STRUCT('w35' AS `category`, 36 AS `position`),
          STRUCT('w36' AS `category`, 37 AS `position`),
          STRUCT('w37' AS `category`, 38 AS `position`),
          STRUCT('w38' AS `category`, 39 AS `position`),
          STRUCT('w39' AS `category`, 40 AS `position`),
          STRUCT('w40' AS `category`, 41 AS `position`),
          STRUCT('w41' AS `category`, 42 AS `position`),
          STRUCT('w42' AS `category`, 43 AS `position`),
          STRUCT('w43' AS `category`, 44 AS `position`),
          STRUCT('w44' AS `category`, 45 AS `position`),
          STRUCT('w45' AS `category`, 46 AS `position`),
          STRUCT('w46' AS `category`, 47 AS `position`),
          STRUCT('w47' AS `category`, 48 AS `position`),
          STRUCT('w48' AS `category`, 49 AS `position`),
          STRUCT('w49' AS `category`, 50 AS `position`),
          STRUCT('w50' AS `category`, 51 AS `position`),
          STRUCT('w51' AS `category`, 52 AS `position`),
          STRUCT('w52' AS `category`, 53 AS `position`),
          STRUCT('w53' AS `category`, 54 AS `position`),
          STRUCT('w54' AS `category`, 55 AS `position`),
          STRUCT('w55' AS `category`, 56 AS `position`),
          STRUCT('w56' AS `category`, 57 AS `position`),
          STRUCT('w57' AS `category`, 58 AS `position`),
          STRUCT('w58' AS `category`, 59 AS `position`),
          STRUCT('w59' AS `category`, 60 AS `position`),
          STRUCT('w60' AS `category`, 61 AS `position`),
          STRUCT('w61' AS `category`, 62 AS `position`),
          STRUCT('w62' AS `category`, 63 AS `position`),
          STRUCT('w63' AS `category`, 64 AS `position`)
        ]) AS named
      ) AS named
        ON `text_0` = `category`
    ) AS below
    WHERE
      NOT `code_0` IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    (`cell_0`)
  );

-- dates
SELECT
  COALESCE(`cell_0`, `cell_1`, `cell_2`) AS `cell`,
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS INT64) + (
      `code_0` * CAST(1 AS INT64)
    ) AS `cell_0`,
    CAST(2 AS INT64) + (
      `code_1` * CAST(1 AS INT64)
    ) AS `cell_1`,
    CAST(26 AS INT64) + (
      `code_2` * CAST(1 AS INT64)
    ) AS `cell_2`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        CASE
          WHEN NOT `number_0` IS NULL
          THEN CASE
            WHEN `number_0` >= CAST('18628.0' AS FLOAT64)
            THEN CAST(1 AS INT64)
            ELSE CAST(0 AS INT64)
          END
        END AS `code_0`,
        CASE
          WHEN `number_1` >= CAST('1704067200.0' AS FLOAT64)
          AND `number_1` < CAST('1735689600.0' AS FLOAT64)
          THEN CAST(FLOOR(
            (
              `number_1` - (
                CAST(FLOOR(`number_1` / CAST('86400.0' AS FLOAT64)) AS FLOAT64) * CAST('86400.0' AS FLOAT64)
              )
            ) / CAST('3600.0' AS FLOAT64)
          ) AS INT64)
        END AS `code_1`,
        CASE
          WHEN NOT `number_2` IS NULL
          THEN CASE
            WHEN `number_2` >= CAST('1980.0' AS FLOAT64)
            THEN CAST(1 AS INT64)
            ELSE CAST(0 AS INT64)
          END
        END AS `code_2`
      FROM (
        SELECT
          *,
          CASE
            WHEN CASE
              WHEN `operation_1` < CAST('-9007199254740992.0' AS FLOAT64)
              THEN CAST('-9007199254740992.0' AS FLOAT64)
              WHEN `operation_1` > CAST('9007199254740992.0' AS FLOAT64)
              THEN CAST('9007199254740992.0' AS FLOAT64)
              ELSE `operation_1`
            END = CAST(FLOOR(
              CASE
                WHEN `operation_1` < CAST('-9007199254740992.0' AS FLOAT64)
                THEN CAST('-9007199254740992.0' AS FLOAT64)
                WHEN `operation_1` > CAST('9007199254740992.0' AS FLOAT64)
                THEN CAST('9007199254740992.0' AS FLOAT64)
                ELSE `operation_1`
              END
            ) AS FLOAT64)
            THEN `operation_1`
          END AS `number_2`,
          CASE WHEN NOT `operation_1` IS NULL THEN '1' END AS `text_2`
        FROM (
          SELECT
            *,
            CAST(EXTRACT(YEAR FROM DATE_ADD(CAST('1970-01-01' AS DATE), INTERVAL (CAST(`number_0` AS INT64)) DAY)) AS FLOAT64) AS `operation_1`
          FROM (
            SELECT
              *,
              (
                (
                  CAST('365.0' AS FLOAT64) * (
                    `year_of_date_0` - `shift_of_date_0`
                  ) + (
                    CAST(FLOOR((
                      `year_of_date_0` - `shift_of_date_0`
                    ) / CAST('4.0' AS FLOAT64)) AS FLOAT64) - CAST(FLOOR((
                      `year_of_date_0` - `shift_of_date_0`
                    ) / CAST('100.0' AS FLOAT64)) AS FLOAT64)
                  ) + CAST(FLOOR((
                    `year_of_date_0` - `shift_of_date_0`
                  ) / CAST('400.0' AS FLOAT64)) AS FLOAT64) + CAST(FLOOR(
                    (
                      (
                        CAST('153.0' AS FLOAT64) * (
                          (
                            `month_of_date_0` + (
                              CAST('12.0' AS FLOAT64) * `shift_of_date_0`
                            )
                          ) - CAST('3.0' AS FLOAT64)
                        )
                      ) + CAST('2.0' AS FLOAT64)
                    ) / CAST('5.0' AS FLOAT64)
                  ) AS FLOAT64) + `day_of_date_0`
                ) - CAST('719469.0' AS FLOAT64)
              ) AS `number_0`,
              CASE
                WHEN REGEXP_CONTAINS(`written_of_date_1`, '^.*:[0-9.]+(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)$')
                THEN `instant_of_date_1` + CAST('0.0' AS FLOAT64)
                ELSE `wall_of_date_1`
              END AS `number_1`
            FROM (
              SELECT
                *,
                (
                  `wall_of_date_1` - (
                    (
                      CAST('3600.0' AS FLOAT64) * `ahead_hours_of_date_1`
                    ) + (
                      CAST('60.0' AS FLOAT64) * `ahead_minutes_of_date_1`
                    )
                  )
                ) + (
                  (
                    CAST('3600.0' AS FLOAT64) * `behind_hours_of_date_1`
                  ) + (
                    CAST('60.0' AS FLOAT64) * `behind_minutes_of_date_1`
                  )
                ) AS `instant_of_date_1`
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
                                CAST('365.0' AS FLOAT64) * (
                                  `year_of_date_1` - `shift_of_date_1`
                                ) + (
                                  CAST(FLOOR((
                                    `year_of_date_1` - `shift_of_date_1`
                                  ) / CAST('4.0' AS FLOAT64)) AS FLOAT64) - CAST(FLOOR((
                                    `year_of_date_1` - `shift_of_date_1`
                                  ) / CAST('100.0' AS FLOAT64)) AS FLOAT64)
                                ) + CAST(FLOOR((
                                  `year_of_date_1` - `shift_of_date_1`
                                ) / CAST('400.0' AS FLOAT64)) AS FLOAT64) + CAST(FLOOR(
                                  (
                                    (
                                      CAST('153.0' AS FLOAT64) * (
                                        (
                                          `month_of_date_1` + (
                                            CAST('12.0' AS FLOAT64) * `shift_of_date_1`
                                          )
                                        ) - CAST('3.0' AS FLOAT64)
                                      )
                                    ) + CAST('2.0' AS FLOAT64)
                                  ) / CAST('5.0' AS FLOAT64)
                                ) AS FLOAT64) + `day_of_date_1`
                              ) - CAST('719469.0' AS FLOAT64)
                            ) * CAST('24.0' AS FLOAT64)
                          ) + `hour_of_date_1`
                        ) * CAST('60.0' AS FLOAT64)
                      ) + `minute_of_date_1`
                    ) * CAST('60.0' AS FLOAT64)
                  ) + `second_of_date_1` AS `wall_of_date_1`
                FROM (
                  SELECT
                    *,
                    CASE
                      WHEN `month_of_date_0` <= CAST('2.0' AS FLOAT64)
                      THEN CAST('1.0' AS FLOAT64)
                      ELSE CAST('0.0' AS FLOAT64)
                    END AS `shift_of_date_0`,
                    CASE
                      WHEN `month_of_date_1` <= CAST('2.0' AS FLOAT64)
                      THEN CAST('1.0' AS FLOAT64)
                      ELSE CAST('0.0' AS FLOAT64)
                    END AS `shift_of_date_1`
                  FROM (
                    SELECT
                      *,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_0`, '.')[SAFE_OFFSET(2)], ''), 1, 4) AS FLOAT64) AS `year_of_date_0`,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_0`, '.')[SAFE_OFFSET(1)], ''), 1, 2) AS FLOAT64) AS `month_of_date_0`,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_0`, '.')[SAFE_OFFSET(0)], ''), 1, 2) AS FLOAT64) AS `day_of_date_0`,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_1`, '-')[SAFE_OFFSET(0)], ''), 1, 4) AS FLOAT64) AS `year_of_date_1`,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_1`, '-')[SAFE_OFFSET(1)], ''), 1, 2) AS FLOAT64) AS `month_of_date_1`,
                      SAFE_CAST(SUBSTR(COALESCE(SPLIT(`written_of_date_1`, '-')[SAFE_OFFSET(2)], ''), 1, 2) AS FLOAT64) AS `day_of_date_1`,
                      SAFE_CAST(SUBSTR(
                        COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                        1,
                        2
                      ) AS FLOAT64) AS `hour_of_date_1`,
                      SAFE_CAST(SUBSTR(
                        COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                        4,
                        2
                      ) AS FLOAT64) AS `minute_of_date_1`,
                      SAFE_CAST(CASE
                        WHEN SUBSTR(
                          COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                          6,
                          1
                        ) = ':'
                        THEN SUBSTR(
                          COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                          7,
                          2
                        )
                        ELSE '0'
                      END AS FLOAT64) AS `second_of_date_1`,
                      SAFE_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '+'
                              )[SAFE_OFFSET(1)],
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
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '+'
                              )[SAFE_OFFSET(1)],
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        )
                      END AS FLOAT64) AS `ahead_hours_of_date_1`,
                      SAFE_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '+'
                              )[SAFE_OFFSET(1)],
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
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '+'
                              )[SAFE_OFFSET(1)],
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        )
                      END AS FLOAT64) AS `ahead_minutes_of_date_1`,
                      SAFE_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '-'
                              )[SAFE_OFFSET(1)],
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
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '-'
                              )[SAFE_OFFSET(1)],
                              ''
                            ),
                            ':',
                            ''
                          ),
                          1,
                          2
                        )
                      END AS FLOAT64) AS `behind_hours_of_date_1`,
                      SAFE_CAST(CASE
                        WHEN SUBSTR(
                          REPLACE(
                            COALESCE(
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '-'
                              )[SAFE_OFFSET(1)],
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
                              SPLIT(
                                COALESCE(SPLIT(REPLACE(`written_of_date_1`, 'T', ' '), ' ')[SAFE_OFFSET(1)], ''),
                                '-'
                              )[SAFE_OFFSET(1)],
                              ''
                            ),
                            ':',
                            ''
                          ),
                          3,
                          2
                        )
                      END AS FLOAT64) AS `behind_minutes_of_date_1`
                    FROM (
                      SELECT
                        *,
                        CASE
                          WHEN REGEXP_CONTAINS(
                            `text_0`,
                            '^((0?[1-9]|1[0-9]|2[0-8])[.](0?[1-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|(29|30)[.](0?[13-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|31[.](0?[13578]|1[02])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|29[.]0?2[.]([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00))([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)?$'
                          )
                          THEN `text_0`
                        END AS `written_of_date_0`,
                        CASE
                          WHEN REGEXP_CONTAINS(
                            `text_1`,
                            '^(([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13-9]|1[0-2])-(29|30)|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13578]|1[02])-31|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)$'
                          )
                          THEN `text_1`
                        END AS `written_of_date_1`
                      FROM (
                        SELECT
                          NULLIF(
                            TRIM(
                              CAST(`day` AS STRING),
                              CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                            ),
                            ''
                          ) AS `text_0`,
                          NULLIF(
                            TRIM(
                              CAST(`seen` AS STRING),
                              CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                            ),
                            ''
                          ) AS `text_1`
                        FROM `ward`.`patients`
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
      NOT `code_0` IS NULL AND NOT `code_1` IS NULL AND NOT `code_2` IS NULL
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    (`cell_0`),
    (`cell_1`),
    (`cell_2`)
  );

-- rows of persons
SELECT
  `by_0`,
  COUNT(*)
FROM (
  SELECT
    CAST(FLOOR(
      CASE
        WHEN (
          `number_0` * CAST('100.0' AS FLOAT64)
        ) + CAST('0.5' AS FLOAT64) < CAST('0.0' AS FLOAT64)
        THEN CAST('0.0' AS FLOAT64)
        WHEN (
          `number_0` * CAST('100.0' AS FLOAT64)
        ) + CAST('0.5' AS FLOAT64) > CAST('1000.0' AS FLOAT64)
        THEN CAST('1000.0' AS FLOAT64)
        ELSE (
          `number_0` * CAST('100.0' AS FLOAT64)
        ) + CAST('0.5' AS FLOAT64)
      END
    ) AS INT64) AS `by_0`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY `unit_id`
          ORDER BY MOD(
            (
              MOD(
                MOD(`value_0`, CAST(1000003 AS INT64)) * CAST(977801 AS INT64),
                CAST(1000003 AS INT64)
              ) + MOD(
                MOD(`value_1`, CAST(1000003 AS INT64)) * CAST(45324 AS INT64),
                CAST(1000003 AS INT64)
              )
            ),
            CAST(1000003 AS INT64)
          ) NULLS LAST, `value_0` NULLS LAST, `value_1` NULLS LAST, `code_0` NULLS LAST, `code_1` NULLS LAST
        ) AS `rank_of_row`
      FROM (
        SELECT
          *,
          CAST(FLOOR(
            CASE
              WHEN (
                `number_0` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64) < CAST('0.0' AS FLOAT64)
              THEN CAST('0.0' AS FLOAT64)
              WHEN (
                `number_0` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64) > CAST('1000.0' AS FLOAT64)
              THEN CAST('1000.0' AS FLOAT64)
              ELSE (
                `number_0` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64)
            END
          ) AS INT64) AS `value_0`,
          `code_1` AS `value_1`
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              CASE
                WHEN `number_0` >= CAST('0.0' AS FLOAT64) AND `number_0` <= CAST('10.0' AS FLOAT64)
                THEN CASE
                  WHEN `number_0` >= CAST('0.5' AS FLOAT64)
                  THEN CAST(1 AS INT64)
                  ELSE CAST(0 AS INT64)
                END
              END AS `code_0`,
              CASE
                WHEN `text_1` = 'f'
                THEN CAST(0 AS INT64)
                WHEN `text_1` = 'm'
                THEN CAST(1 AS INT64)
                WHEN `text_1` = 'it\'s \\'
                THEN CAST(2 AS INT64)
                ELSE CAST(2 AS INT64)
              END AS `code_1`
            FROM (
              SELECT
                *,
                CASE
                  WHEN REGEXP_CONTAINS(
                    `text_0`,
                    '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$'
                  )
                  THEN SAFE_CAST(`text_0` AS FLOAT64)
                END AS `number_0`
              FROM (
                SELECT
                  *
                FROM (
                  SELECT
                    NULLIF(
                      TRIM(
                        CAST(`wage` AS STRING),
                        CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                      ),
                      ''
                    ) AS `text_0`,
                    NULLIF(
                      NULLIF(
                        TRIM(
                          CAST(`sex` AS STRING),
                          CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                        ),
                        ''
                      ),
                      'x'
                    ) AS `text_1`,
                    NULLIF(
                      TRIM(
                        CAST(`who's` AS STRING),
                        CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                      ),
                      ''
                    ) AS `unit_id`
                  FROM `ward`.`patients`
                ) AS below
                WHERE
                  NOT `unit_id` IS NULL
              ) AS below
            ) AS below
          ) AS below
          WHERE
            NOT `code_0` IS NULL AND NOT `code_1` IS NULL
        ) AS below
      ) AS below
    ) AS below
    WHERE
      `rank_of_row` <= CAST(2 AS INT64)
  ) AS below
) AS below
GROUP BY
  `by_0`;

-- texts of persons
SELECT
  MIN(`text`),
  COUNT(*)
FROM (
  SELECT
    `text_0` AS `text`,
    `text_0` AS `key`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY `unit_id`
          ORDER BY TO_HEX(SHA256(`text_0`)) NULLS LAST, `text_0` NULLS LAST
        ) AS `rank_of_row`
      FROM (
        SELECT
          *
        FROM (
          SELECT
            *,
            CASE
              WHEN `text_0` = 'f'
              THEN CAST(0 AS INT64)
              WHEN `text_0` = 'm'
              THEN CAST(1 AS INT64)
              WHEN `text_0` = 'it\'s \\'
              THEN CAST(2 AS INT64)
              ELSE CAST(2 AS INT64)
            END AS `code_0`
          FROM (
            SELECT
              *
            FROM (
              SELECT
                NULLIF(
                  NULLIF(
                    TRIM(
                      CAST(`sex` AS STRING),
                      CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                    ),
                    ''
                  ),
                  'x'
                ) AS `text_0`,
                NULLIF(
                  TRIM(
                    CAST(`who's` AS STRING),
                    CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                  ),
                  ''
                ) AS `unit_id`
              FROM `ward`.`patients`
            ) AS below
            WHERE
              NOT `unit_id` IS NULL
          ) AS below
        ) AS below
        WHERE
          NOT `text_0` IS NULL
      ) AS below
    ) AS below
    WHERE
      `rank_of_row` <= CAST(2 AS INT64)
  ) AS below
) AS below
GROUP BY
  `key`;

-- one value a person
SELECT
  COALESCE(`cell_0`) AS `cell`,
  COUNT(*)
FROM (
  SELECT
    CAST(0 AS INT64) + (
      `code_0` * CAST(2 AS INT64)
    ) + `code_1` * CAST(1 AS INT64) AS `cell_0`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY `unit_id`
          ORDER BY MOD(
            (
              MOD(
                MOD(`value_0`, CAST(1000003 AS INT64)) * CAST(354198 AS INT64),
                CAST(1000003 AS INT64)
              ) + MOD(
                MOD(`value_1`, CAST(1000003 AS INT64)) * CAST(544885 AS INT64),
                CAST(1000003 AS INT64)
              )
            ),
            CAST(1000003 AS INT64)
          ) NULLS LAST, `value_0` NULLS LAST, `value_1` NULLS LAST, `code_0` NULLS LAST, `code_1` NULLS LAST
        ) AS `rank_of_row`
      FROM (
        SELECT
          *,
          `code_0` AS `value_0`,
          CAST(FLOOR(
            CASE
              WHEN (
                `number_1` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64) < CAST('0.0' AS FLOAT64)
              THEN CAST('0.0' AS FLOAT64)
              WHEN (
                `number_1` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64) > CAST('10000.0' AS FLOAT64)
              THEN CAST('10000.0' AS FLOAT64)
              ELSE (
                `number_1` * CAST('100.0' AS FLOAT64)
              ) + CAST('0.5' AS FLOAT64)
            END
          ) AS INT64) AS `value_1`
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              CASE
                WHEN `text_0` = 'f'
                THEN CAST(0 AS INT64)
                WHEN `text_0` = 'm'
                THEN CAST(1 AS INT64)
                ELSE CASE WHEN `text_0` IS NULL THEN CAST(1 AS INT64) ELSE CAST(NULL AS INT64) END
              END AS `code_0`,
              CASE
                WHEN NOT `number_1` IS NULL
                THEN CASE
                  WHEN `number_1` >= CAST('10.0' AS FLOAT64)
                  THEN CAST(1 AS INT64)
                  ELSE CAST(0 AS INT64)
                END
              END AS `code_1`
            FROM (
              SELECT
                *,
                CAST(`taken_0` AS STRING) AS `text_0`,
                `taken_1` AS `number_1`,
                CASE WHEN NOT `taken_1` IS NULL THEN '1' END AS `text_1`
              FROM (
                SELECT
                  below.*,
                  CAST(`category` AS STRING) AS `taken_0`
                FROM (
                  SELECT
                    *,
                    (
                      CAST(CAST(CASE
                        WHEN `value_of_person_1` < CAST(-9007199254740992 AS BIGNUMERIC)
                        THEN CAST(-9007199254740992 AS BIGNUMERIC)
                        WHEN `value_of_person_1` > CAST(9007199254740992 AS BIGNUMERIC)
                        THEN CAST(9007199254740992 AS BIGNUMERIC)
                        ELSE `value_of_person_1`
                      END AS INT64) AS FLOAT64) / CAST('100.0' AS FLOAT64)
                    ) AS `taken_1`
                  FROM (
                    SELECT
                      `unit_id`,
                      MIN(CASE WHEN `rank_of_value_0` = `end_of_person_0` THEN `code_0` END) AS `value_of_person_0`,
                      SUM(
                        CAST(CAST(FLOOR(
                          CASE
                            WHEN (
                              `number_1` * CAST('100.0' AS FLOAT64)
                            ) + CAST('0.5' AS FLOAT64) < CAST('0.0' AS FLOAT64)
                            THEN CAST('0.0' AS FLOAT64)
                            WHEN (
                              `number_1` * CAST('100.0' AS FLOAT64)
                            ) + CAST('0.5' AS FLOAT64) > CAST('1000.0' AS FLOAT64)
                            THEN CAST('1000.0' AS FLOAT64)
                            ELSE (
                              `number_1` * CAST('100.0' AS FLOAT64)
                            ) + CAST('0.5' AS FLOAT64)
                          END
                        ) AS INT64) AS NUMERIC)
                      ) AS `value_of_person_1`
                    FROM (
                      SELECT
                        *,
                        MAX(`rank_of_value_0`) OVER (PARTITION BY `unit_id`) AS `end_of_person_0`
                      FROM (
                        SELECT
                          *,
                          COUNT(`code_0`) OVER (PARTITION BY `unit_id`, `code_0`) AS `rank_of_value_0`
                        FROM (
                          SELECT
                            *,
                            CASE
                              WHEN `text_0` = 'f'
                              THEN CAST(0 AS INT64)
                              WHEN `text_0` = 'm'
                              THEN CAST(1 AS INT64)
                              ELSE CAST(NULL AS INT64)
                            END AS `code_0`
                          FROM (
                            SELECT
                              *,
                              CAST(`operation_1` AS STRING) AS `text_0`,
                              `number_3` AS `number_1`,
                              CASE WHEN NOT `number_3` IS NULL THEN '1' END AS `text_1`
                            FROM (
                              SELECT
                                *,
                                NULLIF(
                                  TRIM(
                                    CAST(SUBSTR(`text_2`, 1, 1) AS STRING),
                                    CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                                  ),
                                  ''
                                ) AS `operation_1`
                              FROM (
                                SELECT
                                  *,
                                  CASE
                                    WHEN REGEXP_CONTAINS(
                                      `text_3`,
                                      '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$'
                                    )
                                    THEN SAFE_CAST(`text_3` AS FLOAT64)
                                  END AS `number_3`
                                FROM (
                                  SELECT
                                    *
                                  FROM (
                                    SELECT
                                      NULLIF(
                                        NULLIF(
                                          TRIM(
                                            CAST(`sex` AS STRING),
                                            CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                                          ),
                                          ''
                                        ),
                                        'x'
                                      ) AS `text_2`,
                                      NULLIF(
                                        TRIM(
                                          CAST(`wage` AS STRING),
                                          CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                                        ),
                                        ''
                                      ) AS `text_3`,
                                      NULLIF(
                                        TRIM(
                                          CAST(`who's` AS STRING),
                                          CONCAT(CHR(  32), CHR(  9), CHR(  10), CHR(  11), CHR(  12), CHR(  13))
                                        ),
                                        ''
                                      ) AS `unit_id`
                                    FROM `ward`.`patients`
                                  ) AS below
                                  WHERE
                                    NOT `unit_id` IS NULL
                                ) AS below
                              ) AS below
                            ) AS below
                          ) AS below
                        ) AS below
                      ) AS below
                    ) AS below
                    GROUP BY
                      `unit_id`
                  ) AS below
                ) AS below
                LEFT JOIN (
                  SELECT
                    `category`,
                    CAST(`position` AS INT64) AS `position`
                  FROM UNNEST([
                    STRUCT('f' AS `category`, 0 AS `position`),
                    STRUCT('m' AS `category`, 1 AS `position`)
                  ]) AS named
                ) AS named
                  ON `value_of_person_0` = `position`
              ) AS below
            ) AS below
          ) AS below
          WHERE
            NOT `code_0` IS NULL AND NOT `code_1` IS NULL
        ) AS below
      ) AS below
    ) AS below
    WHERE
      `rank_of_row` <= CAST(1 AS INT64)
  ) AS below
) AS below
GROUP BY
  GROUPING SETS (
    (`cell_0`)
  );
