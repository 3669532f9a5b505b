import { consoleAccounts } from "./consoleAccounts.ts";
import { inEnglish, inRussian, type Tree } from "./words.ts";

/** Words of the operator's console. */
export const console = {
  ...consoleAccounts,
  title: ["Console", "Консоль"],
  views: {
    "": ["Overview", "Обзор"],
    accounts: ["Accounts", "Счета"],
    keys: ["Keys", "Ключи"],
    requests: ["Requests", "Запросы"],
    providers: ["Providers", "Провайдеры"],
    vouchers: ["Vouchers", "Ваучеры"],
    audit: ["Audit", "Проверка"],
  },
  session: {
    over: ["This console is not open", "Консоль не открыта"],
    howToOpen: [
      "Its address works once, and an hour without use ends it. Run this command on the server again, and open the address that it prints:",
      "Её адрес работает один раз, а час без действий её закрывает. Запустите на сервере эту команду ещё раз и откройте адрес, который она напечатает:",
    ],
    lost: [
      "No connection to the console. The page keeps trying. If the command has ended, run it again.",
      "Нет связи с консолью. Страница продолжает попытки. Если команда завершилась, запустите её ещё раз.",
    ],
    end: ["End", "Завершить"],
  },
  none: ["—", "—"],
  overview: {
    use: ["Use by model", "Использование по моделям"],
    measure: ["Shown figure", "Что показано"],
    money: ["Charges, cost and margin", "Списания, себестоимость и маржа"],
    roubles: ["Roubles", "Рубли"],
    tokens: ["Tokens", "Токены"],
    requests: ["Requests", "Запросы"],
    charged: ["Charged", "Списано"],
    operatorCost: ["Your cost", "Себестоимость"],
    margin: ["Margin", "Маржа"],
    cached: ["Prompt from caches", "Промпт из кэша"],
    cacheSaved: ["Saved by caches", "Экономия кэша"],
    cachesSave: [
      (account: string, operator: string) =>
        `Caches saved your clients ${account}, and you ${operator}.`,
      (account: string, operator: string) => `Кэш сэкономил клиентам ${account}, вам ${operator}.`,
    ],
    failed: ["Failed", "С ошибкой"],
    firstByte: ["First byte, p50", "Первый байт, p50"],
    duration: ["Duration, p50", "Длительность, p50"],
    p95: [(duration: string) => `p95 ${duration}`, (duration: string) => `p95 ${duration}`],
    sampled: [
      (requests: string) =>
        `First byte and duration are from an evenly spaced sample of ${requests} requests.`,
      (requests: string) =>
        `Первый байт и длительность — по равномерной выборке из ${requests} запросов.`,
    ],
    otherModels: ["Other models", "Другие модели"],
    topAccounts: ["Top accounts", "Счета по расходу"],
    topKeys: ["Top keys", "Ключи по расходу"],
    topModels: ["Top models", "Модели по расходу"],
    topProviders: ["Top providers", "Провайдеры по расходу"],
    noProvider: ["no provider answered", "никто не ответил"],
  },
  attention: {
    title: ["Needs a look", "Требует внимания"],
    none: ["Nothing needs a look", "Ничего не требует внимания"],
    failing: ["failing", "сбои"],
    failedOf: [
      (failed: string, attempts: string) => `${failed} of ${attempts} attempts failed`,
      (failed: string, attempts: string) => `${failed} из ${attempts} попыток с ошибкой`,
    ],
    low: ["low balance", "мало средств"],
    daysLeft: [
      (days: number) =>
        days < 1
          ? "less than a day left"
          : `${inEnglish(Math.floor(days), { one: "day", other: "days" })} left`,
      (days: number) =>
        days < 1
          ? "меньше чем на день"
          : `хватит на ${inRussian(Math.floor(days), { one: "день", few: "дня", many: "дней", other: "дня" })}`,
    ],
    oldHold: ["open for over an hour", "открыт больше часа"],
    expiring: ["expires soon", "скоро истечёт"],
    estimated: ["estimated", "по оценке"],
    writeOffs: ["written off", "не взыскано"],
    requests: [
      (count: number) => inEnglish(count, { one: "request", other: "requests" }),
      (count: number) =>
        inRussian(count, { one: "запрос", few: "запроса", many: "запросов", other: "запроса" }),
    ],
  },
  providers: {
    configGood: ["The config is valid", "Конфигурация верна"],
    configBad: [
      "The config has problems, and the gateway would refuse it",
      "В конфигурации есть ошибки, шлюз её не примет",
    ],
    breakers: ["Circuit breakers now", "Предохранители сейчас"],
    breakersHint: [
      "As the running gateway reports them in its metrics.",
      "Как сообщает работающий шлюз в своих метриках.",
    ],
    noMetrics: [
      "Not known: set [metrics] listen in the config, and the gateway reports them.",
      "Неизвестно: задайте в конфигурации [metrics] listen, и шлюз будет их сообщать.",
    ],
    noBreakers: [
      "No route was tried since the start of the gateway.",
      "С запуска шлюза ни один маршрут не использовался.",
    ],
    states: {
      closed: ["closed", "замкнут"],
      "half-open": ["half open", "проверяется"],
      open: ["open", "разомкнут"],
    },
    notInConfig: ["no longer in the config", "в конфигурации больше нет"],
    itsRequests: ["Its requests", "Его запросы"],
    errorShare: ["Failed attempts", "Неудачных попыток"],
    attempts: ["Attempts", "Попытки"],
    succeeded: ["succeeded", "успешные"],
    failed: ["failed", "неудачные"],
    firstByte: ["First byte", "Первый байт"],
    firstByteP50: ["p50", "p50"],
    firstByteP95: ["p95", "p95"],
    models: ["Models and prices", "Модели и цены"],
    perMillion: ["Roubles per 1,000,000 tokens.", "Рублей за 1 000 000 токенов."],
    searchModels: ["Search models", "Поиск моделей"],
    model: ["Model", "Модель"],
    input: ["Input", "Вход"],
    cached: ["Cached input", "Вход из кэша"],
    output: ["Output", "Выход"],
    routes: ["Routes", "Маршруты"],
    further: ["Other tiers and plans", "Другие тарифы и планы"],
    lowestMargin: [
      (percent: string, price: string) => `lowest ${percent} (${price})`,
      (percent: string, price: string) => `наименьшая ${percent} (${price})`,
    ],
    fallbacks: ["Fallbacks", "Запасные модели"],
    order: [
      (priority: number, weight: number) => `priority ${priority}, weight ${weight}`,
      (priority: number, weight: number) => `приоритет ${priority}, вес ${weight}`,
    ],
    margins: [
      (input: string, output: string) => `margin ${input} of input, ${output} of output`,
      (input: string, output: string) => `маржа ${input} со входа, ${output} с выхода`,
    ],
  },
  audit: {
    what: [
      "Compares all accounting records with each other. It changes nothing, and the gateway goes on.",
      "Сверяет все учётные записи между собой. Ничего не меняет, шлюз продолжает работать.",
    ],
    proves: ["What it proves", "Что она доказывает"],
    proved: ["What it proved", "Что доказано"],
    parts: {
      file: ["The database file", "Файл базы"],
      rules: ["The rules of each row", "Правила каждой строки"],
      histories: ["The history of each balance", "История каждого баланса"],
      totals: ["The daily totals", "Итоги по дням"],
    },
    claims: [
      [
        "Each balance is the sum of its ledger.",
        "Each charge is tokens times price, and each request is charged at most once.",
        "Each refund belongs to a charge and never exceeds it.",
        "Each redeemed voucher was credited once.",
        "The daily totals agree with the requests.",
      ],
      [
        "Каждый баланс — сумма своего журнала.",
        "Каждое списание — токены, умноженные на цену, и за запрос списано не больше одного раза.",
        "Каждый возврат относится к списанию и не больше его.",
        "Каждый погашенный ваучер зачислен один раз.",
        "Итоги по дням совпадают с запросами.",
      ],
    ],
    run: ["Run the audit", "Запустить проверку"],
    stop: ["Stop", "Остановить"],
    running: ["The audit is running", "Проверка идёт"],
    rows: [
      (done: string, total: string) => `${done} of ${total} rows`,
      (done: string, total: string) => `${done} из ${total} строк`,
    ],
    result: ["Result", "Результат"],
    consistent: ["The ledger is consistent", "Журнал согласован"],
    problems: [
      (count: number) => inEnglish(count, { one: "problem", other: "problems" }),
      (count: number) =>
        inRussian(count, { one: "проблема", few: "проблемы", many: "проблем", other: "проблемы" }),
    ],
    looked: [
      (accounts: string, requests: string) =>
        `${accounts} accounts and ${requests} requests were checked.`,
      (accounts: string, requests: string) =>
        `Проверено счетов: ${accounts}, запросов: ${requests}.`,
    ],
    advice: [
      "Copy the database, and compare it with a backup.",
      "Скопируйте базу и сравните её с резервной копией.",
    ],
  },
  lists: {
    charged30d: ["Charged, 30 days", "Списано за 30 дней"],
    requests30d: ["Requests, 30 days", "Запросов за 30 дней"],
  },
  requests: {
    intro: [
      "Of all accounts, newest first. Costs are exact.",
      "Всех счетов, сначала новые. Стоимость точная.",
    ],
    none: ["No requests yet", "Запросов пока нет"],
    withFilters: ["Filter these requests", "Отфильтровать эти запросы"],
    any: ["Any", "Любой"],
    time: ["Time", "Время"],
    id: ["Request", "Запрос"],
    status: ["Status", "Итог"],
    account: ["Account", "Счёт"],
    key: ["Key id", "Номер ключа"],
    model: ["Model", "Модель"],
    provider: ["Provider", "Провайдер"],
    attempts: ["Attempts", "Попытки"],
    prompt: ["Prompt", "Промпт"],
    cached: ["Cached", "Из кэша"],
    completion: ["Answer", "Ответ"],
    firstByte: ["First byte", "Первый байт"],
    duration: ["Duration", "Время ответа"],
    cost: ["Cost", "Стоимость"],
    costMin: ["Cost from, ₽", "Стоимость от, ₽"],
    costMax: ["Cost up to, ₽", "Стоимость до, ₽"],
    only: ["Only", "Только"],
    kinds: {
      "": ["All requests", "Все запросы"],
      estimated: ["Estimated", "По оценке"],
      written_off: ["Written off", "Не взысканные"],
    },
    period: ["Period", "Период"],
  },
  request: {
    title: ["Request", "Запрос"],
    copyId: ["Copy the id", "Скопировать номер"],
    cost: ["Cost", "Стоимость"],
    refunded: ["refunded", "возвращено"],
    estimated: ["The counts are an estimate", "Количество оценено"],
    estimatedWhy: [
      "The provider did not report usable counts, so the gateway estimated them.",
      "Провайдер не сообщил пригодных чисел, поэтому шлюз оценил их сам.",
    ],
    writtenOff: ["Written off:", "Не взыскано:"],
    writtenOffWhy: [
      "The answer cost more than the account had. This part was not charged, and you pay it.",
      "Ответ стоил больше, чем было на счёте. Эта часть не списана, её оплачиваете вы.",
    ],
    details: ["Details", "Подробности"],
    endpoint: ["Call", "Вызов"],
    form: ["Answer", "Ответ"],
    streamed: ["streamed", "потоком"],
    whole: ["in one piece", "целиком"],
    hold: ["Hold", "Удержание"],
    promptTokens: ["Prompt tokens", "Токены промпта"],
    cachedTokens: ["of them cached", "из них из кэша"],
    completionTokens: ["Answer tokens", "Токены ответа"],
    attempts: ["Attempts", "Попытки"],
    attemptsNote: [
      "One after the other, until one answers. A failed attempt costs nothing.",
      "Одна за другой, пока не придёт ответ. Неудачная попытка ничего не стоит.",
    ],
    noAttempts: ["No attempt has ended yet", "Ни одна попытка ещё не закончилась"],
    answered: ["answered", "ответ получен"],
    refund: {
      action: ["Refund", "Вернуть"],
      title: ["Refund the charge", "Вернуть списанное"],
      confirm: ["Refund", "Вернуть"],
      amountHint: [
        "All that is left of the charge, or a part of it.",
        "Всё, что осталось от списания, или часть.",
      ],
      refunded: ["Refunded", "Возвращено"],
      left: ["Left of the charge", "Осталось от списания"],
      balance: [
        (account: string) => `Balance of ${account}`,
        (account: string) => `Баланс счёта ${account}`,
      ],
      done: [
        (amount: string, name: string) => `${amount} refunded to ${name}`,
        (amount: string, name: string) => `${amount} возвращено на счёт ${name}`,
      ],
    },
  },
  standby: {
    behind: [
      (database: string, time: string) =>
        `The figures are from the standby ${database}, at most ${time} behind.`,
      (database: string, time: string) =>
        `Данные с реплики ${database}, отставание не более ${time}.`,
    ],
    unknown: [
      (database: string) =>
        `The figures are from the standby ${database}. How far it is behind is not known.`,
      (database: string) => `Данные с реплики ${database}. Её отставание неизвестно.`,
    ],
    unused: [
      (database: string) =>
        `The figures are from the database itself, because the standby ${database} is not used now.`,
      (database: string) => `Данные из самой базы: реплика ${database} сейчас не используется.`,
    ],
  },
  foot: [
    (state: { version: string; actor: string; database: string }, timeZone: string) =>
      `Tollgate ${state.version}. Changes are logged as ${state.actor}. Database: ${state.database}. Times: ${timeZone}.`,
    (state: { version: string; actor: string; database: string }, timeZone: string) =>
      `Tollgate ${state.version}. Изменения записываются от имени ${state.actor}. База: ${state.database}. Время: ${timeZone}.`,
  ],
} as const satisfies Tree;
