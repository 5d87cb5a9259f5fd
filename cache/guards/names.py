"""Things that are told apart by name: two members of one kind are never the same question.

kind -> its members, between two bars; the words of one member mean the same thing (a country and its adjective, in
English and in Chinese). The members of a kind marked with `!` are proper names: a question that names one is not
answered by a question that names none.
General knowledge, typed by us; no gazetteer was copied.
"""

# fmt: off
_LINES: dict[str, str] = {
    "country!": """
        usa american americans 美国|uk british 英国|england english 英格兰|scotland scottish 苏格兰|
        wales welsh 威尔士|ireland irish 爱尔兰|northern_ireland 北爱尔兰|france french 法国|germany german 德国|
        spain spanish 西班牙|italy italian 意大利|portugal portuguese 葡萄牙|netherlands dutch holland 荷兰|
        belgium belgian 比利时|austria austrian 奥地利|switzerland swiss 瑞士|sweden swedish 瑞典|
        norway norwegian 挪威|denmark danish 丹麦|finland finnish 芬兰|iceland icelandic 冰岛|poland 波兰|
        czechia czech 捷克|slovakia slovak 斯洛伐克|slovenia 斯洛文尼亚|hungary hungarian 匈牙利|
        romania romanian 罗马尼亚|bulgaria bulgarian 保加利亚|greece greek 希腊|croatia croatian 克罗地亚|
        serbia serbian 塞尔维亚|ukraine ukrainian 乌克兰|russia russian 俄罗斯|belarus 白俄罗斯|
        turkiye turkish 土耳其|israel israeli 以色列|iran iranian 伊朗|iraq iraqi 伊拉克|syria syrian 叙利亚|
        lebanon lebanese 黎巴嫩|egypt egyptian 埃及|morocco moroccan 摩洛哥|algeria algerian 阿尔及利亚|
        tunisia tunisian 突尼斯|libya libyan 利比亚|sudan sudanese 苏丹|ethiopia ethiopian 埃塞俄比亚|
        kenya kenyan 肯尼亚|uganda ugandan 乌干达|tanzania 坦桑尼亚|nigeria nigerian 尼日利亚|niger 尼日尔|
        ghana ghanaian 加纳|mali 马里|guinea 几内亚|zimbabwe 津巴布韦|zambia 赞比亚|south_africa south_african 南非|
        namibia 纳米比亚|saudi_arabia saudi 沙特|uae emirati 阿联酋|qatar 卡塔尔|kuwait 科威特|oman 阿曼|yemen 也门|
        afghanistan afghan 阿富汗|pakistan pakistani 巴基斯坦|india indian 印度|bangladesh 孟加拉国|nepal 尼泊尔|
        sri_lanka 斯里兰卡|china chinese 中国|japan japanese 日本|korea korean 韩国|north_korea 朝鲜|mongolia 蒙古|
        vietnam vietnamese 越南|thailand thai 泰国|laos 老挝|cambodia 柬埔寨|myanmar burma 缅甸|
        malaysia malaysian 马来西亚|singapore 新加坡|indonesia indonesian 印尼 印度尼西亚|philippines filipino 菲律宾|
        taiwan 台湾|hong_kong 香港|macau 澳门|australia australian 澳大利亚 澳洲|new_zealand 新西兰|
        canada canadian 加拿大|mexico mexican 墨西哥|cuba cuban 古巴|jamaica jamaican 牙买加|haiti 海地|
        brazil brazilian 巴西|argentina argentinian 阿根廷|chile chilean 智利|peru peruvian 秘鲁|
        colombia colombian 哥伦比亚|venezuela 委内瑞拉|ecuador 厄瓜多尔|bolivia 玻利维亚|uruguay 乌拉圭|
        paraguay 巴拉圭|armenia armenian 亚美尼亚|georgia georgian 格鲁吉亚|azerbaijan 阿塞拜疆|
        kazakhstan kazakh 哈萨克斯坦|uzbekistan 乌兹别克斯坦|estonia estonian 爱沙尼亚|latvia latvian 拉脱维亚|
        lithuania lithuanian 立陶宛|luxembourg 卢森堡|malta maltese 马耳他|cyprus 塞浦路斯|
        albania albanian 阿尔巴尼亚|bermuda 百慕大|guam 关岛|eu 欧盟|europe european 欧洲|asia asian 亚洲|
        africa african 非洲|latin|hindi|arabic|mandarin 普通话|cantonese 粤语|hebrew|california 加州|texas 德州|
        florida 佛罗里达|alaska|hawaii 夏威夷|ohio|nevada|arizona|oregon|utah|virginia|quebec|ontario|catalonia|
        bavaria|siberia|tibet 西藏|xinjiang 新疆|antarctica 南极|arctic 北极""",
    "city!": """
        london 伦敦|manchester 曼彻斯特|edinburgh 爱丁堡|glasgow|birmingham|liverpool 利物浦|leeds|bristol|
        oxford 牛津|cambridge 剑桥|cardiff|belfast|heathrow|gatwick|stansted|luton|dublin 都柏林|paris 巴黎|lyon|
        marseille|berlin 柏林|munich 慕尼黑|hamburg 汉堡|frankfurt 法兰克福|cologne|vienna 维也纳|zurich 苏黎世|
        geneva 日内瓦|rome 罗马|milan 米兰|venice 威尼斯|florence|naples|madrid 马德里|barcelona 巴塞罗那|seville|
        lisbon 里斯本|porto|faro|amsterdam 阿姆斯特丹|rotterdam|brussels 布鲁塞尔|copenhagen|stockholm|oslo|helsinki|
        warsaw|krakow|prague 布拉格|budapest|bucharest|athens 雅典|istanbul|ankara|moscow 莫斯科|kyiv kiev|cairo 开罗|
        dubai 迪拜|doha|riyadh|mumbai 孟买|delhi 德里|bangalore|karachi|tokyo 东京|osaka 大阪|kyoto 京都|seoul 首尔|
        beijing 北京|shanghai 上海|guangzhou 广州|shenzhen 深圳|hangzhou 杭州|nanjing 南京|suzhou 苏州|chengdu 成都|
        chongqing 重庆|wuhan 武汉|xi'an 西安|tianjin 天津|qingdao 青岛|xiamen 厦门|changsha 长沙|dalian 大连|
        harbin 哈尔滨|kunming 昆明|sanya 三亚|guilin 桂林|lhasa 拉萨|taipei 台北|bangkok 曼谷|hanoi 河内|
        jakarta 雅加达|manila 马尼拉|sydney 悉尼|melbourne 墨尔本|brisbane|perth|auckland|toronto 多伦多|
        vancouver 温哥华|montreal|ottawa|new_york nyc 纽约|los_angeles la 洛杉矶|san_francisco 旧金山|chicago 芝加哥|
        boston 波士顿|seattle 西雅图|miami 迈阿密|houston|dallas|denver|atlanta|las_vegas 拉斯维加斯|
        washington 华盛顿|philadelphia|phoenix|detroit|nairobi|lagos|johannesburg|são_paulo|rio|buenos_aires|lima|
        bogota|郑州|济南|合肥|福州|南昌|南宁|贵阳|兰州|银川|西宁|太原|石家庄|沈阳|长春|宁波|温州|无锡|佛山|东莞|珠海|
        烟台|洛阳|四川|广东|浙江|江苏|山东|河南|河北|湖南|湖北|福建|安徽|江西|广西|云南|贵州|陕西|山西|辽宁|吉林|
        黑龙江|甘肃|青海|海南|内蒙古|宁夏""",
    "brand!": """
        apple 苹果公司|google 谷歌|microsoft 微软|amazon 亚马逊|facebook|meta|twitter|instagram|tiktok 抖音|snapchat|
        whatsapp|telegram|wechat 微信|alipay 支付宝|qq|weibo 微博|taobao 淘宝|jd 京东|pinduoduo 拼多多|meituan 美团|
        eleme 饿了么|didi 滴滴|baidu 百度|alibaba 阿里巴巴|tencent 腾讯|huawei 华为|xiaomi 小米|oppo|vivo|
        samsung 三星|sony 索尼|lg|nokia|lenovo 联想|dell 戴尔|hp 惠普|asus|acer|intel|amd|nvidia|tesla 特斯拉|
        bmw 宝马|audi 奥迪|mercedes 奔驰|toyota 丰田|honda 本田|ford 福特|byd 比亚迪|nio 蔚来|netflix|spotify|hulu|
        disney|youtube|twitch|deezer|itunes|paypal|venmo|klarna|stripe|visa 维萨|mastercard 万事达|
        amex american_express|unionpay 银联|apple_pay|google_pay|samsung_pay|huabei 花呗|jiebei 借呗|yuebao 余额宝|
        baitiao 白条|微粒贷|ebay|etsy|shopify|walmart 沃尔玛|tesco|sainsbury's|asda|ikea 宜家|asos|zara|nike 耐克|
        adidas 阿迪达斯|starbucks 星巴克|mcdonald's 麦当劳|kfc 肯德基|uber 优步|uber_eats|lyft|deliveroo|airbnb|
        booking.com|expedia|ctrip 携程|easyjet|ryanair|jet2|lufthansa|emirates|vodafone|o2|ee|verizon|t-mobile|at&t|
        移动|联通|电信|dhl|fedex|ups|usps|顺丰|圆通|中通|申通|韵达|salesforce|hubspot|mailchimp|klaviyo|jira|trello|
        asana|slack|zoom|notion|dropbox|onedrive|google_drive|github|gitlab|bitbucket|aws|azure|google_cloud gcp|
        heroku|openai|chatgpt|claude|gemini|llama|qwen|deepseek|gpt|kindle|alexa|siri|cortana|playstation|ps4|ps5|
        xbox|nintendo|switch|工商银行 工行|建设银行 建行|农业银行 农行|中国银行 中行|招商银行 招行|交通银行 交行|
        邮储银行""",
    "system!": """
        windows 视窗|macos mac osx|linux|ubuntu|debian|fedora|android 安卓|ios|iphone|ipad|ipados|chromeos chromebook|
        harmonyos 鸿蒙|chrome|firefox|safari|edge|opera|internet_explorer""",
    "program language!": """
        python|java|javascript js|typescript|c++ cpp|c#|rust|golang|ruby|php|perl|swift|kotlin|scala|haskell|matlab|
        sql|bash|powershell|lua|julia|fortran|cobol|lisp|react|angular|vue|django|flask|spring|rails|mysql|
        postgresql postgres|sqlite|mongodb|redis|oracle|kafka|docker|kubernetes""",
    "file format!": """
        json|xml|csv|yaml|toml|pdf|docx word_document word 文档|excel xlsx xls|powerpoint pptx|html|markdown|latex|
        epub|mp3|mp4|wav|avi|mov|jpg jpeg|png|gif|svg|webp|tar|rar""",
    "animal": """
        dog puppy 狗 小狗|cat kitten 猫 小猫|bird 鸟|fish 鱼|hamster 仓鼠|rabbit bunny 兔子|horse pony 马匹|
        cow cattle 牛|pig 猪|sheep 绵羊|goat 山羊|chicken hen rooster|duck 鸭|goose 鹅|mouse|rat 老鼠|squirrel 松鼠|
        monkey 猴子|lion 狮子|tiger 老虎|bear 熊|wolf 狼|fox 狐狸|snake 蛇|lizard 蜥蜴|turtle tortoise 乌龟|frog 青蛙|
        owl|eagle|parrot 鹦鹉|lobster 龙虾|crab 螃蟹|shrimp prawn 虾|spider 蜘蛛|ant 蚂蚁|bee 蜜蜂|wasp|fly|
        mosquito 蚊子|cockroach 蟑螂|elephant 大象|giraffe|zebra|kangaroo|panda 熊猫|dolphin 海豚|whale 鲸|shark 鲨鱼|
        octopus|deer 鹿|chimpanzee|guinea_pig 豚鼠|pigeon|penguin 企鹅|camel 骆驼""",
    "body part": """
        head 头|face 脸|eye 眼睛 眼|ear 耳朵|nose 鼻子|mouth 嘴|tooth 牙齿 牙|tongue 舌头|neck 脖子 颈|
        throat 喉咙 嗓子|shoulder 肩膀 肩|arm 手臂 胳膊|elbow 手肘|wrist 手腕|hand 手部|finger 手指|thumb|nail|
        chest 胸|breast|back|stomach belly 肚子 胃|hip|waist 腰|leg 腿|thigh|knee 膝盖|calf|ankle 脚踝|foot 脚|heel|
        toe 脚趾|heart 心脏|lung 肺|liver 肝|kidney 肾|brain 大脑|skin 皮肤|bone 骨头|muscle 肌肉|hair 头发|lip 嘴唇|
        spine 脊椎|bladder|colon|prostate|uterus 子宫|pancreas 胰腺|thyroid 甲状腺""",
    "colour": """
        red 红色 红|blue 蓝色 蓝|green 绿色 绿|yellow 黄色 黄|orange_colour 橙色|purple violet 紫色|pink 粉色|
        brown 棕色|black 黑色 黑|white 白色 白|grey gray 灰色|silver 银色|gold golden 金色""",
    "sport": """
        football soccer 足球|basketball 篮球|baseball 棒球|tennis 网球|golf 高尔夫|cricket 板球|rugby 橄榄球|
        hockey 冰球|volleyball 排球|badminton 羽毛球|table_tennis 乒乓球|swimming swim 游泳|
        running run jogging jog 跑步|cycling 骑行|boxing 拳击|skiing 滑雪|snowboarding|skating 滑冰|surfing 冲浪|
        yoga 瑜伽|pilates 普拉提|chess 国际象棋|poker|hiking 徒步""",
    "food": """
        rice 米饭 大米|bread 面包|pasta 意面|noodle noodles 面条|potato 土豆|tomato 番茄 西红柿|onion 洋葱|
        garlic 大蒜|carrot 胡萝卜|cucumber 黄瓜|pepper 辣椒|cheese 奶酪|butter 黄油|milk 牛奶|egg 鸡蛋|beef 牛肉|
        pork 猪肉|lamb 羊肉|salmon 三文鱼|tuna 金枪鱼|tofu 豆腐|sugar 糖|salt 盐|flour 面粉|honey 蜂蜜|banana 香蕉|
        apple 苹果|orange 橙子|lemon 柠檬|grape 葡萄|strawberry 草莓|mango 芒果|pineapple 菠萝|peach 桃子|pear 梨|
        watermelon 西瓜|cookie biscuit 饼干|cake 蛋糕|chocolate 巧克力|yogurt yoghurt 酸奶|peanut 花生|almond 杏仁|
        walnut 核桃|coffee 咖啡|tea 茶|juice 果汁|beer 啤酒|wine 红酒 葡萄酒|vodka|whisky whiskey|pizza 披萨|
        burger 汉堡包|sushi 寿司|soup 汤|salad 沙拉|water 水|dumpling 饺子|粽子|汤圆|月饼|包子|馒头|火锅|烧烤""",
    "drug": """
        ibuprofen 布洛芬|paracetamol acetaminophen tylenol 对乙酰氨基酚 扑热息痛|aspirin 阿司匹林|naproxen|codeine|
        morphine|penicillin 青霉素|amoxicillin 阿莫西林|sertraline|isotretinoin|metformin 二甲双胍|insulin 胰岛素|
        prednisone|warfarin|statin|xanax|diazepam|omeprazole|antibiotic antibiotics 抗生素|头孢|连花清瘟|感冒灵""",
    "illness": """
        covid|flu 流感|cold 感冒|cancer 癌症|diabetes 糖尿病|hypertension 高血压|hypotension 低血压|asthma 哮喘|
        pneumonia 肺炎|bronchitis 支气管炎|hepatitis 肝炎|malaria 疟疾|measles 麻疹|chickenpox 水痘|shingles 带状疱疹|
        hiv 艾滋病|stroke 中风|migraine 偏头痛|headache 头痛|fever 发烧 发热|cough 咳嗽|
        diarrhea diarrhoea 腹泻 拉肚子|constipation 便秘|allergy 过敏|depression 抑郁症|anxiety 焦虑症|insomnia 失眠|
        gout 痛风|anemia 贫血|arthritis 关节炎|eczema 湿疹|近视|远视|白内障""",
    "relative": """
        mother 妈妈 母亲|father 爸爸 父亲|son 儿子|daughter 女儿|brother 兄弟 哥哥 弟弟|sister 姐妹 姐姐 妹妹|
        husband 老公 丈夫|wife 老婆 妻子|uncle 叔叔|aunt 阿姨|cousin 表哥 表弟|grandmother grandma 奶奶 外婆|
        grandfather grandpa 爷爷 外公|nephew 侄子|niece 侄女|child 孩子 小孩 儿童|baby 婴儿 宝宝|friend 朋友|
        colleague coworker co-worker 同事|neighbour neighbor 邻居|partner|boyfriend 男朋友|girlfriend 女朋友|
        guest visitor|boss manager 老板|roommate 室友|pet 宠物|parent 父母 家长""",
    "person": """
        student 学生|teacher 老师 教师|doctor 医生|nurse 护士|engineer 工程师|lawyer attorney 律师|accountant 会计|
        architect|artist|actor|actress|author|writer 作家|editor|journalist|photographer 摄影师|chef cook|farmer 农民|
        soldier 军人|police policeman|pilot|investor|economist|historian|scientist|analyst|auditor|adviser advisor|
        assistant|executive|entrepreneur|educator|interpreter|investigator|intern|activist|administrator|academic|
        organizer|candidate|employee 员工|contractor|freelancer|landlord 房东|tenant 租客 房客|adult 成人 成年人 大人|
        teenager 青少年|senior pensioner retiree 老人 老年人|tourist 游客|immigrant|refugee|citizen|resident|
        homeowner|veteran|member 会员|admin 管理员|driver 司机|customer 顾客|merchant seller 商家 卖家|buyer 买家|
        孕妇|employer 雇主""",
    "month!": """
        january jan 一月|february feb 二月|march 三月|april apr 四月|june jun 六月|july jul 七月|august aug 八月|
        september sept sep 九月|october oct 十月|november nov 十一月|december dec 十二月""",
    "weekday!": """
        monday mondays 星期一 周一 礼拜一|tuesday tuesdays 星期二 周二 礼拜二|wednesday wednesdays 星期三 周三 礼拜三|
        thursday thursdays 星期四 周四 礼拜四|friday fridays 星期五 周五 礼拜五|saturday saturdays 星期六 周六 礼拜六|
        sunday sundays 星期天 星期日 周日 周天 礼拜天|weekend weekends 周末|weekday weekdays 工作日""",
    "day!": """
        today today's 今天 今日|tomorrow tomorrow's 明天 明日|yesterday 昨天 昨日|day_after_tomorrow 后天|
        day_before_yesterday 前天|tonight 今晚|tomorrow_night 明晚|last_night 昨晚|this_week 这周 本周 这个星期|
        last_week 上周 上个星期|next_week 下周 下个星期|this_month 这个月 本月|last_month 上个月 上月|
        next_month 下个月 下月|this_year 今年 本年|last_year 去年|next_year 明年|前年|this_weekend|next_weekend""",
    "holiday!": """
        christmas xmas 圣诞节 圣诞|easter 复活节|halloween 万圣节|thanksgiving 感恩节|new_year new_year's 元旦|
        chinese_new_year spring_festival 春节 过年|中秋节 中秋|端午节 端午|清明节 清明|国庆节 国庆|劳动节|
        valentine's_day 情人节|mother's_day 母亲节|father's_day 父亲节|ramadan|eid|diwali|black_friday|双十一|
        独生子女|七夕""",
    "religion": """
        christian christianity 基督教|muslim islam islamic 伊斯兰教|jewish judaism 犹太教|hindu hinduism 印度教|
        buddhist buddhism 佛教|catholic 天主教|protestant|atheist|taoism 道教""",
    "planet": """
        mercury_planet 水星|venus 金星|earth 地球|mars 火星|jupiter 木星|saturn 土星|uranus 天王星|neptune 海王星|
        pluto 冥王星|moon 月球 月亮""",
    "element": """
        sodium 钠|potassium 钾|calcium 钙|magnesium 镁|iron 铁|copper 铜|zinc 锌|gold_metal 黄金|silver_metal 白银|
        lead_metal 铅|aluminium aluminum 铝|oxygen 氧气 氧|hydrogen 氢气 氢|nitrogen 氮气 氮|carbon 碳|helium 氦|
        chlorine 氯|sulfur sulphur 硫|phosphorus 磷|mercury_metal 汞|vitamin_a|vitamin_b|vitamin_c|vitamin_d|
        protein 蛋白质|fat 脂肪|carbohydrate 碳水""",
    "card": """
        credit_card 信用卡|debit_card 借记卡 储蓄卡|gift_card 礼品卡|sim_card sim 电话卡|id_card 身份证|bank_account|
        savings_account savings 储蓄账户|current_account checking_account checking|isa|pension 养老金|mortgage 房贷|
        loan 贷款|insurance 保险|社保|公积金|医保|overdraft|driving_licence 驾照 驾驶证|passport 护照|
        visa_document 签证|birth_certificate 出生证|结婚证|居住证|发票|收据""",
    "field": """
        username user_name 用户名|password 密码|email 邮箱|phone_number 手机号|address 地址|name 姓名 名字|
        avatar profile_picture 头像|nickname 昵称|birthday date_of_birth 生日|pin 支付密码|security_question|language|
        currency|timezone time_zone""",
    "transport": """
        bus 公交 公交车|train 火车|plane flight airplane 飞机 航班|car 汽车|taxi cab 出租车|bike bicycle 自行车|
        motorcycle motorbike 摩托车|boat|ship|ferry 轮渡|cruise 邮轮|tram|subway underground metro 地铁|
        truck lorry 卡车|高铁|动车|coach|helicopter|scooter""",
    "device": """
        phone 手机|tablet 平板|laptop 笔记本|desktop pc 台式机|tv 电视|camera 相机|printer 打印机|router 路由器|
        watch smartwatch 手表|headphones earphones earbuds 耳机|speaker 音箱|keyboard 键盘|mouse_device 鼠标|
        monitor 显示器|fridge refrigerator 冰箱|washing_machine washer 洗衣机|dryer 烘干机|dishwasher 洗碗机|
        oven 烤箱|microwave 微波炉|vacuum vacuum_cleaner 吸尘器|air_conditioner 空调|heater|boiler|kettle|toaster|
        drone""",
    "room": """
        kitchen 厨房|bathroom 浴室|bedroom 卧室|living_room 客厅|garage 车库|garden 花园|balcony 阳台|office 办公室|
        basement|attic|toilet 厕所|pool swimming_pool 游泳池|gym 健身房|spa|sauna|restaurant 餐厅|bar|cafe 咖啡厅|
        hotel 酒店|hospital 医院|school 学校|university college 大学|library 图书馆|museum 博物馆|park_place 公园|
        airport 机场|station 车站|bank 银行|supermarket 超市|pharmacy 药店|cinema 电影院|church 教堂|幼儿园|小学|中学|
        初中|高中""",
    "instrument": """
        guitar 吉他|piano 钢琴|violin 小提琴|drums 鼓|flute 长笛|trumpet|saxophone|cello|harp|ukulele|古筝|二胡""",
    "crypto!": """
        bitcoin btc 比特币|ethereum eth 以太坊|dogecoin|litecoin|tether usdt""",
    "subject": """
        mathematics maths math 数学|physics 物理|chemistry 化学|biology 生物|history 历史|geography 地理|
        english_subject 英语|medicine_subject 医学|law 法律|economics 经济学|philosophy 哲学|psychology 心理学|
        computer_science 计算机|art 美术|music 音乐|语文|政治""",
    "meal": """
        breakfast 早餐 早饭|lunch 午餐 午饭|dinner supper 晚餐 晚饭|brunch|snack 零食|dessert 甜点""",
    "party": """
        republican republicans|democrat democrats democratic|liberal liberals|conservative conservatives|socialist|
        communist|libertarian""",
    "dynasty": """
        唐朝|宋朝|明朝|清朝|元朝|秦朝|汉朝|隋朝|三国|周朝|商朝|晋朝|第一次世界大战 一战|第二次世界大战 二战""",
    "trouble": """
        lost missing misplaced|stolen nicked|broken damaged faulty|expired|blocked frozen locked|declined rejected|
        pending|cancelled canceled|delayed|hacked compromised|swallowed|reverted|duplicate duplicated|
        丢失 丢了 遗失 丢|损坏 坏了 破损|过期|被盗 被偷|冻结""",
    "action": """
        cancel cancellation 取消|track 跟踪|return 退货|replace replacement 补办|activate|withdraw withdrawal 提现|
        deposit|transfer 转账|exchange|verify confirm verification|delete 删除|register registration 注册|
        install 安装|renew renewal|repair|insure|rent|borrow|visit|cook|boil|wash|clean|feed|translate 翻译|
        summarise summarize 总结|print 打印|scan|upload 上传|share|rename|copy|compare|complain 投诉|refund 退款|
        charge|挂失|解冻""",
    "weather": """
        rain rainy 下雨 雨|snow snowy 下雪 雪|sunny 天晴 晴|cloudy 多云|windy wind 刮风|storm 风暴 暴风雨|
        fog foggy 雾|hot 热|cold 冷|humidity humid 湿度|coat jacket 大衣 外套|umbrella 雨伞 伞|temperature 气温 温度""",
    "season": """
        spring_season 春天 春季|summer 夏天 夏季|autumn 秋天 秋季|winter 冬天 冬季""",
    "service": """
        gas_supply 天然气 燃气|electricity 电费|水费|broadband 宽带|landline|roaming 漫游|流量|话费""",
}
# fmt: on


def _members() -> dict[str, tuple[str, str]]:
    """word -> (kind, member). The first kind that lists a word keeps it."""
    found: dict[str, tuple[str, str]] = {}
    for kind, lines in _LINES.items():
        for member in lines.split("|"):
            words = member.split()
            for word in words:
                found.setdefault(word, (kind, words[0]))
    return found


MEMBERS = _members()


def is_proper(kind: str) -> bool:
    """Whether the kind's members are proper names, which one question cannot simply leave out."""
    return kind.endswith("!")
